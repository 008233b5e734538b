-- The lock belongs to the connection, because each CREATE TABLE commits the transaction. It waits for up to a minute.
SELECT GET_LOCK('retrysafe outbox migrate', 60)
