-- Notes that the transaction has completed the attempt, for hold.
SELECT {{schema}}.mark_ended(l.k, l.fence) FROM {{schema}}.read_lease($1) l
