-- oldest: 1
-- Searches by state and by scope, which need not read all records. Programs of earlier versions go on: what they change is
-- found by later sweeps.
DELIMITER //

-- Sweeps divide the records, in the order of their first fences, into blocks of about a thousand. A block ends where the
-- next one begins; the first one begins with 0, and stays. An index on the scope of each record would be written with
-- each claim, at a random place.
CREATE TABLE IF NOT EXISTS {{blocks}} (
	first_fence BIGINT   NOT NULL PRIMARY KEY,
	records     INT      NOT NULL, -- how many sweeps have put into it
	scopes      LONGBLOB NOT NULL  -- of these records, with a zero byte before, between and after them
) ENGINE = InnoDB
//

INSERT IGNORE INTO {{blocks}} (first_fence, records, scopes) VALUES (0, 0, x'00')
//

-- How far sweeps have come: records with a first fence below 'indexed' are in blocks, and those that have not succeeded have
-- a row in the table of tags, '=unfinished' or '=failed', as no tag of a client is; 'noted' is when that was; 'again' and
-- 'review' are from where to go on looking at records and blocks again.
CREATE TABLE IF NOT EXISTS {{progress}} (
	name  VARBINARY(16) NOT NULL PRIMARY KEY,
	value BIGINT        NOT NULL
) ENGINE = InnoDB
//

INSERT IGNORE INTO {{progress}} (name, value) VALUES ('indexed', 0), ('noted', 0), ('again', 0), ('review', 0)
//
