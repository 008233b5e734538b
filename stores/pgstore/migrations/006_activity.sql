-- oldest: 1
-- The view activity, which functions.sql has.
SELECT;
