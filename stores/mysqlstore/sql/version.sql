-- The last migration, and the oldest version that a program must know to work with it.
SELECT version, oldest FROM {{migrations}} ORDER BY version DESC LIMIT 1
