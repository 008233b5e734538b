-- One row if the transaction is still the one that was marked.
SELECT 1 WHERE current_setting('retrysafe.in_tx', true) = 'open'
