-- oldest: 1
-- Tags by which people find a key, name=value, a line for each; NULL: none.
ALTER TABLE retrysafe_records ADD COLUMN tags BLOB;

-- The tags of records one by one. Only claims with tags write here.
CREATE TABLE retrysafe_tags (
	tag    BLOB NOT NULL,
	record INTEGER NOT NULL, -- retrysafe_records.id
	PRIMARY KEY (tag, record)
) WITHOUT ROWID;

CREATE INDEX retrysafe_tagged ON retrysafe_tags (record);

-- By these a client's key is found in whichever scope: a row for each transaction that has claimed new keys. An index
-- would cost each claim a page somewhere in the file; this costs it four bytes at the end of a table.
CREATE TABLE retrysafe_hashes (
	first  INTEGER PRIMARY KEY, -- the lowest of the ids of these records
	last   INTEGER NOT NULL,    -- the highest
	hashes BLOB NOT NULL        -- CRC-32 of each key, four bytes each
);

-- How often retries have seen a record, by kind (retrysafe.SightingKind).
CREATE TABLE retrysafe_sightings (
	record   INTEGER NOT NULL, -- retrysafe_records.id
	kind     INTEGER NOT NULL,
	count    INTEGER NOT NULL,
	first_at INTEGER NOT NULL,
	last_at  INTEGER NOT NULL,
	code     INTEGER NOT NULL, -- of the answer that the last one got
	PRIMARY KEY (record, kind)
) WITHOUT ROWID;

-- What these tables hold goes with the record, also if a program deletes it that does not know them.
CREATE TRIGGER retrysafe_gone AFTER DELETE ON retrysafe_records BEGIN
	DELETE FROM retrysafe_tags WHERE record = OLD.id;
	DELETE FROM retrysafe_sightings WHERE record = OLD.id;
	DELETE FROM retrysafe_hashes
	WHERE first = (SELECT max(first) FROM retrysafe_hashes WHERE first <= OLD.id)
		AND NOT EXISTS (SELECT 1 FROM retrysafe_records WHERE id BETWEEN first AND last);
END;

DROP VIEW retrysafe_keys;

-- For people: names instead of numbers, and bodies as text where they are JSON. The stored bytes stay as they are.
CREATE VIEW retrysafe_keys AS
SELECT
	lower(hex(digest)) AS digest,
	CASE state WHEN 1 THEN 'pending' WHEN 2 THEN 'released' WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed' END AS state,
	archived,
	CAST(scope AS TEXT) AS scope,
	CAST(key AS TEXT) AS key,
	replace(CAST(tags AS TEXT), char(10), ', ') AS tags,
	attempt,
	fence,
	strftime('%Y-%m-%dT%H:%M:%fZ', id / 1e6, 'unixepoch') AS claimed_at,
	strftime('%Y-%m-%dT%H:%M:%fZ', ends_at / 1e6, 'unixepoch') AS ends_at,
	code,
	omitted,
	CASE WHEN json_valid(CAST(body AS TEXT)) THEN json(CAST(body AS TEXT)) END AS json_body,
	length(body) AS body_bytes
FROM retrysafe_records;
