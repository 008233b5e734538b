-- The earliest minute from $1 on and before $2 in which a record is due; NULL: there is none.
SELECT min(c.sweep_at) FROM {{schema}}.claims c WHERE c.sweep_at >= $1 AND c.sweep_at < $2
