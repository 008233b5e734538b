-- Lets the transaction commit only if it completes the attempt.
SELECT {{schema}}.hold($1)
