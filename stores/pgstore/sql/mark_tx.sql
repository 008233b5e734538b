-- Marks a transaction for is_marked.sql. The mark goes when the transaction ends.
SET LOCAL retrysafe.in_tx = 'open'
