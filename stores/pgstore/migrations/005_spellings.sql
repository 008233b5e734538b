-- oldest: 1
-- Repairs of the functions: header fields of ours are refused in all spellings.
SELECT;
