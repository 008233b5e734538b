-- oldest: 1
-- The functions for services in any language.

-- What claim returns: one row. Columns that do not apply are NULL. The schema is in quotes where a type is named, because
-- there some words that it may be called are reserved.
CREATE TYPE "{{schema}}".claimed AS (
	verdict            text,     -- acquired, in_flight, done, abandoned or mismatch
	lease              text,     -- acquired: the token of the lease; a secret
	attempt            integer,  -- 1 is the first
	code               integer,  -- done: the answer
	content_type       text,
	headers            text[],   -- lines: Name: value
	body               bytea,    -- NULL: the answer was not kept, or may not be read any more
	failed             boolean,  -- done: whether the answer is a final failure
	omitted            boolean,  -- done: whether the answer was too large to be kept
	lease_left         interval, -- how long the lease runs if nobody extends it
	state              text,     -- of the record: pending, released, succeeded or failed
	fence              bigint,   -- grows with every claim of the key
	first_fence        bigint,   -- of the first claim of this record
	stored_fingerprint bytea,
	step_names         bytea[],  -- what earlier attempts have saved
	step_data          bytea[],
	meta               bytea,    -- what an adapter has saved with the answer
	age                interval, -- since the first claim
	ended_age          interval, -- since the end
	replay_left        interval, -- what is left of the windows
	key_left           interval,
	audit_left         interval
);
