-- oldest: 1
-- Searches by scope, which need not read the records of other scopes.

-- Sweeps divide the records, in the order of their first fences, into blocks of about a thousand. A block ends where the
-- next one begins; the first one begins with 0, and stays. An index on the scope of each record would be written with
-- each claim, at a random place; this is written by sweeps, at the end, with a row for each block.
CREATE TABLE {{schema}}.blocks (
	first_fence bigint  NOT NULL CONSTRAINT blocks_pkey PRIMARY KEY,
	records     integer NOT NULL, -- how many sweeps have put into it
	scopes      bytea   NOT NULL  -- of these records, with a zero byte before, between and after them
);
-- A search reads them all, which takes longer if they are compressed.
ALTER TABLE {{schema}}.blocks ALTER COLUMN scopes SET STORAGE EXTERNAL;
INSERT INTO {{schema}}.blocks VALUES (0, 0, '\x00');

ALTER TABLE {{schema}}.progress
	ADD COLUMN scoped_below bigint NOT NULL DEFAULT 0, -- records with a lower first_fence are in blocks
	ADD COLUMN review_from  bigint NOT NULL DEFAULT 0; -- where to go on comparing blocks with their records
