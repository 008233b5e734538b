-- If the clock was set back, drops the blocks of records that are to be looked at again. The transaction has locked
-- progress before.
DELETE FROM {{schema}}.blocks
WHERE first_fence > 0 AND first_fence >= (SELECT least(scoped_below, ready_below) FROM {{schema}}.progress)
