-- The first fence up to which records are in blocks.
SELECT least(scoped_below, ready_below) FROM {{schema}}.progress
