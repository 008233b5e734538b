-- Makes the partitions of today and tomorrow if one of them is missing. Without a row both are there.
SELECT {{schema}}.add_days(t.day, 2)
FROM (SELECT {{schema}}.clock() / 86400000000 AS day) t
WHERE to_regclass('{{schema}}.results_' || to_char(date '1970-01-01' + t.day::integer, 'YYYYMMDD')) IS NULL
	OR to_regclass('{{schema}}.results_' || to_char(date '1970-01-01' + t.day::integer + 1, 'YYYYMMDD')) IS NULL
