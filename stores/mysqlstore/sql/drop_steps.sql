-- Drops the steps of a record.
DELETE FROM {{steps}} WHERE k = {{rows: ? AND first_fence = ?}}
