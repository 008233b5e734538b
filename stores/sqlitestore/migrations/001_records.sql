-- oldest: 1
-- What the store knows, outside the records: 'schema' is the number of the last migration, 'oldest' the one that a program must
-- know at least to work with the file, 'fence' a number that no fence given out exceeds unless its record is the newest one.
CREATE TABLE retrysafe_meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;

-- One row per record, in the order of arrival. Instants and durations are microseconds on the store's clock.
CREATE TABLE retrysafe_records (
	id          INTEGER PRIMARY KEY, -- the fence of the first claim, which is also when that was
	archived    INTEGER NOT NULL,    -- 1: the key has been claimed anew; kept only to be read
	digest      BLOB NOT NULL,       -- the first 16 bytes of SHA-256 over scope and key
	state       INTEGER NOT NULL,    -- 1 pending, 2 released, 3 succeeded, 4 failed
	fence       INTEGER NOT NULL,    -- of the last claim
	attempt     INTEGER NOT NULL,    -- counts the claims
	ends_at     INTEGER NOT NULL,    -- end of the lease; of a released or ended record: when that was
	keep_replay INTEGER NOT NULL,    -- the retention, counted from ends_at
	keep_key    INTEGER NOT NULL,
	keep_audit  INTEGER NOT NULL,
	steps       INTEGER NOT NULL,    -- how many are saved
	swept       INTEGER NOT NULL,    -- 1: meta, body and steps have been dropped
	code        INTEGER NOT NULL,    -- the result
	omitted     INTEGER NOT NULL,
	owner       BLOB NOT NULL,
	fingerprint BLOB NOT NULL,
	scope       BLOB NOT NULL,
	key         BLOB NOT NULL,
	meta        BLOB,
	body        BLOB,
	room        BLOB                 -- while pending: zeros in place of the result, so that completing moves no other row
);

-- Claims go by this index alone.
CREATE UNIQUE INDEX retrysafe_live ON retrysafe_records (digest) WHERE archived = 0;

-- Holds only records whose key has been claimed anew, so that the others do not pay for it.
CREATE INDEX retrysafe_archived ON retrysafe_records (digest) WHERE archived = 1;

CREATE TABLE retrysafe_steps (
	record   INTEGER NOT NULL, -- retrysafe_records.id
	position INTEGER NOT NULL, -- in the order in which they were saved, from 1
	name     BLOB NOT NULL,
	data     BLOB,
	PRIMARY KEY (record, position)
) WITHOUT ROWID;

-- For people: names instead of numbers, and bodies as text where they are JSON. The stored bytes stay as they are.
CREATE VIEW retrysafe_keys AS
SELECT
	lower(hex(digest)) AS digest,
	CASE state WHEN 1 THEN 'pending' WHEN 2 THEN 'released' WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed' END AS state,
	archived,
	CAST(scope AS TEXT) AS scope,
	CAST(key AS TEXT) AS key,
	attempt,
	fence,
	strftime('%Y-%m-%dT%H:%M:%fZ', id / 1e6, 'unixepoch') AS claimed_at,
	strftime('%Y-%m-%dT%H:%M:%fZ', ends_at / 1e6, 'unixepoch') AS ends_at,
	code,
	omitted,
	CASE WHEN json_valid(CAST(body AS TEXT)) THEN json(CAST(body AS TEXT)) END AS json_body,
	length(body) AS body_bytes
FROM retrysafe_records;

INSERT INTO retrysafe_meta VALUES ('fence', 0);
