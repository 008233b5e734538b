-- Notes that a record of a block has the scope. Drivers may bind an empty blob as NULL.
INSERT INTO retrysafe_scopes (block, scope) VALUES (?1, coalesce(?2, x'')) ON CONFLICT DO NOTHING
