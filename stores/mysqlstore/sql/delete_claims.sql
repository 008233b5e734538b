-- One row for each statement, as in all statements that delete: for more the server may read, and lock, the whole table,
-- and a DELETE takes no hint against that. The sum keeps it from the index of first_fence.
DELETE FROM {{claims}} WHERE k = {{rows: ? AND first_fence + 0 = ?}}
