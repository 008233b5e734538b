-- The records of keys. It locks nothing: what a sweep deletes meanwhile, the next one finds.
SELECT k, first_fence FROM {{claims}} FORCE INDEX (PRIMARY) WHERE k IN ({{rows: ?}})
UNION ALL SELECT k, first_fence FROM {{older}} FORCE INDEX (PRIMARY) WHERE k IN ({{rows: ?}})
