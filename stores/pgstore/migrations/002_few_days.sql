-- oldest: 1
-- From this version on the schema says which programs may work with it, and add_days makes the days of two weeks only.
ALTER TABLE {{schema}}.migrations ADD COLUMN IF NOT EXISTS oldest integer;
