-- Drops the steps of a record, except those whose names begin with a prefix.
DELETE FROM {{steps}} WHERE k = {{rows: ? AND first_fence = ?}} AND LEFT(name, {{prefix_length}}) <> {{prefix}}
