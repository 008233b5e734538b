-- Drops the blocks of records that are to be looked at again.
DELETE FROM {{blocks}} WHERE first_fence > 0 AND first_fence >= {{rows: ?}}
