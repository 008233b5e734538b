-- The minute of the oldest record that is to be looked at, not before minute $1 and before minute $2; NULL: there is none.
SELECT min(c.sweep_at) FROM {{schema}}.claims c WHERE c.sweep_at >= $1 AND c.sweep_at < $2
