-- Marks a transaction for whole.sql. The mark goes when the transaction ends.
SET LOCAL retrysafe.in_tx = 'open'
