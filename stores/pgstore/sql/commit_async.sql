-- The transaction does not wait until it is on disk. PostgreSQL: "Asynchronous Commit".
SELECT set_config('synchronous_commit', 'off', true)
