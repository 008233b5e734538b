-- oldest: 1
-- Searches by scope and by a client's key, which need not read the records of others.

-- Sweeps divide the records, in the order of their ids, into blocks of about a thousand. A block ends where the next one
-- begins; the first one begins with 0, and stays.
CREATE TABLE retrysafe_blocks (
	first   INTEGER PRIMARY KEY,
	records INTEGER NOT NULL -- how many a sweep has put into it
);

-- The scopes that records of a block have. An index on the scope of each record would cost each claim a page somewhere in
-- the file.
CREATE TABLE retrysafe_scopes (
	block INTEGER NOT NULL,
	scope BLOB NOT NULL,
	PRIMARY KEY (block, scope)
) WITHOUT ROWID;

-- What retrysafe_hashes has of a block's records, by the last four bits of each hash.
CREATE TABLE retrysafe_block_hashes (
	bits   INTEGER NOT NULL,
	block  INTEGER NOT NULL,
	hashes BLOB NOT NULL,
	PRIMARY KEY (bits, block)
) WITHOUT ROWID;

-- 'blocks' is the lowest id that is in no block yet, and 'review' the one from which on the next sweep compares blocks with
-- their records.
INSERT INTO retrysafe_blocks VALUES (0, 0);
INSERT INTO retrysafe_meta VALUES ('blocks', 0), ('review', 0);
