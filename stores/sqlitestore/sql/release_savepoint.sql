-- Fails if there is no such savepoint: the transaction that has set it is no more.
RELEASE retrysafe_in_tx
