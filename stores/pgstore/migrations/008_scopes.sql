-- oldest: 1
-- Searches by scope, which need not read the records of other scopes.

-- Sweeps divide the records, in the order of their first fences, into blocks of about a thousand. A block ends where the
-- next one begins; the first one begins with 0, and stays.
CREATE TABLE {{schema}}.blocks (
	first_fence bigint  NOT NULL CONSTRAINT blocks_pkey PRIMARY KEY,
	records     integer NOT NULL -- how many a sweep has put into it
);
INSERT INTO {{schema}}.blocks VALUES (0, 0);

-- The scopes that records of a block have. An index on the scope of each record would be written with each claim, at a
-- random place; this is written by sweeps, at the end, and names a scope once for many records.
CREATE TABLE {{schema}}.scopes (
	block bigint NOT NULL,
	scope bytea  NOT NULL,
	CONSTRAINT scopes_pkey PRIMARY KEY (block, scope)
);

ALTER TABLE {{schema}}.progress
	ADD COLUMN scoped_below bigint NOT NULL DEFAULT 0, -- records with a lower first_fence are in blocks
	ADD COLUMN review_from  bigint NOT NULL DEFAULT 0; -- where to go on comparing blocks with their records
