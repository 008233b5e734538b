-- oldest: 1
-- complete and fail save a usual answer in one statement.
SELECT;
