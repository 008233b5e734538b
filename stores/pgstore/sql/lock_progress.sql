-- Has one process at a time move progress. Returns the time, from before the next statement.
SELECT {{schema}}.clock() FROM {{schema}}.progress FOR UPDATE
