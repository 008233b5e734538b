-- The states that attempts have left. It waits for a transaction that has locked the row, such as one whose COMMIT runs.
SELECT state FROM {{claims}} FORCE INDEX (PRIMARY) WHERE (k, owner, fence) IN ({{rows: (?, ?, ?)}}) FOR UPDATE
