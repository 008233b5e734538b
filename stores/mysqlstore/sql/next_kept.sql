-- The key up to which a pass looks for rows without a record.
SELECT MAX(k) FROM (SELECT k FROM {{kept}} WHERE k > {{after}} ORDER BY k LIMIT {{rows: ?}}) kept
