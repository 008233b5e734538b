-- oldest: 1
-- Times are microseconds since 1970 on the server's clock, in UTC, durations microseconds. The statements end with //,
-- because some of them have semicolons in them. Each may be run again, because a failure leaves those before it in place.
DELIMITER //

-- One row for each key that is taken. It stays narrow: answers are in another table.
CREATE TABLE IF NOT EXISTS {{claims}} (
	k           BINARY(16)      NOT NULL, -- digest of scope and ID
	owner       BINARY(16)      NOT NULL DEFAULT '', -- of the last claim
	fence       BIGINT          NOT NULL DEFAULT 0, -- of the last claim
	first_fence BIGINT          NOT NULL DEFAULT 0, -- of the first claim
	claimed_at  BIGINT          NOT NULL DEFAULT 0, -- when that was
	ends_at     BIGINT          NOT NULL DEFAULT 0, -- of the lease while the record is pending; after that, when it ended
	keep_replay BIGINT          NOT NULL DEFAULT 0, -- durations that count from ends_at
	keep_key    BIGINT          NOT NULL DEFAULT 0,
	keep_audit  BIGINT          NOT NULL DEFAULT 0,
	sweep_at    INT             NOT NULL DEFAULT 0, -- the minute in which to look whether the record has expired
	attempt     INT             NOT NULL DEFAULT 0,
	steps       INT             NOT NULL DEFAULT 0, -- how many there are
	code        INT             NOT NULL DEFAULT 0,
	state       TINYINT         NOT NULL DEFAULT 0, -- 1 pending, 2 released, 3 succeeded, 4 failed
	omitted     TINYINT         NOT NULL DEFAULT 0,
	fingerprint VARBINARY(1024) NOT NULL DEFAULT '',
	scope       VARBINARY(1024) NOT NULL DEFAULT '',
	id          VARBINARY(1024) NOT NULL DEFAULT '',
	PRIMARY KEY (k),
	KEY sweep (sweep_at), -- deadlines are rounded to the minute, so that many rows are next to each other
	KEY first (first_fence)
) ENGINE = InnoDB
//

-- Ended records whose key has been claimed again while their answer may still be read.
CREATE TABLE IF NOT EXISTS {{older}} (
	k           BINARY(16)      NOT NULL,
	owner       BINARY(16)      NOT NULL,
	fence       BIGINT          NOT NULL,
	first_fence BIGINT          NOT NULL,
	claimed_at  BIGINT          NOT NULL,
	ends_at     BIGINT          NOT NULL,
	keep_replay BIGINT          NOT NULL,
	keep_key    BIGINT          NOT NULL,
	keep_audit  BIGINT          NOT NULL,
	sweep_at    INT             NOT NULL,
	attempt     INT             NOT NULL,
	steps       INT             NOT NULL,
	code        INT             NOT NULL,
	state       TINYINT         NOT NULL,
	omitted     TINYINT         NOT NULL,
	fingerprint VARBINARY(1024) NOT NULL,
	scope       VARBINARY(1024) NOT NULL,
	id          VARBINARY(1024) NOT NULL,
	PRIMARY KEY (k, first_fence),
	KEY sweep (sweep_at),
	KEY first (first_fence)
) ENGINE = InnoDB
//

-- Saved steps, as long as their record is there. Names may be longer than a key of an index.
CREATE TABLE IF NOT EXISTS {{steps}} (
	k           BINARY(16) NOT NULL,
	first_fence BIGINT     NOT NULL,
	name_digest BINARY(16) NOT NULL,
	n           INT        NOT NULL, -- their order
	name        LONGBLOB   NOT NULL,
	data        LONGBLOB   NOT NULL,
	PRIMARY KEY (k, first_fence, name_digest)
) ENGINE = InnoDB
//

-- Answers, by the day on which the work ended. A partition is dropped as a whole once no answer in it may be read.
CREATE TABLE IF NOT EXISTS {{results}} (
	ended_at   BIGINT     NOT NULL, -- ends_at of the record
	k          BINARY(16) NOT NULL,
	keep_until BIGINT     NOT NULL, -- the end of both replay and audit
	meta       LONGBLOB   NOT NULL,
	body       LONGBLOB   NOT NULL,
	PRIMARY KEY (ended_at, k)
) ENGINE = InnoDB
PARTITION BY RANGE (ended_at) (PARTITION before_all VALUES LESS THAN (0))
//

DROP PROCEDURE IF EXISTS {{add_days}}
//

-- Makes the partitions of today and of the days after it, up to 14 in all. It runs with its owner's rights, so that
-- the account of a store needs none to change tables. What another session has made meanwhile is left as it is.
CREATE PROCEDURE {{add_days}} (days INT) SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE day_length BIGINT DEFAULT 86400000000;
	DECLARE day BIGINT DEFAULT TIMESTAMPDIFF(DAY, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP());
	DECLARE last BIGINT DEFAULT day + LEAST(days, 14);
	DECLARE highest BIGINT;
	DECLARE CONTINUE HANDLER FOR 1493, 1517 BEGIN END;
	SELECT MAX(CAST(partition_description AS SIGNED)) DIV day_length INTO highest FROM information_schema.partitions
		WHERE table_schema = {{database_text}} AND table_name = {{results_text}};
	SET day = GREATEST(day, highest);
	WHILE day < last DO
		SET @retrysafe_add_day = CONCAT('ALTER TABLE {{results}} ADD PARTITION (PARTITION d',
			DATE_FORMAT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL day DAY, '%Y%m%d'),
			' VALUES LESS THAN (', (day + 1) * day_length, '))');
		PREPARE add_day FROM @retrysafe_add_day;
		EXECUTE add_day;
		DEALLOCATE PREPARE add_day;
		SET day = day + 1;
	END WHILE;
END
//

-- Shows all of it to people. Answers that are JSON are there as text, exactly as they were written.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW {{records}} AS
SELECT LOWER(HEX(c.k)) AS digest, CONVERT(c.scope USING utf8mb4) AS scope, CONVERT(c.id USING utf8mb4) AS id,
	CASE WHEN c.state = 1 AND c.ends_at <= {{now}} THEN 'abandoned'
		ELSE ELT(c.state, 'pending', 'released', 'succeeded', 'failed') END AS state,
	c.attempt, c.fence, c.steps, CONVERT(c.fingerprint USING utf8mb4) AS fingerprint,
	FROM_UNIXTIME(c.claimed_at / 1e6) AS claimed_at,
	CASE WHEN c.state = 1 THEN FROM_UNIXTIME(LEAST(c.ends_at, 2e15) / 1e6) END AS lease_until,
	CASE WHEN c.state > 2 THEN FROM_UNIXTIME(c.ends_at / 1e6) END AS ended_at,
	FROM_UNIXTIME(LEAST(c.ends_at + c.keep_replay, 2e15) / 1e6) AS replay_until,
	FROM_UNIXTIME(LEAST(c.ends_at + c.keep_key, 2e15) / 1e6) AS key_until,
	FROM_UNIXTIME(LEAST(c.ends_at + c.keep_audit, 2e15) / 1e6) AS audit_until,
	CASE WHEN c.state > 2 THEN c.code END AS code, c.omitted, LENGTH(r.body) AS bytes,
	CONVERT(r.meta USING utf8mb4) AS meta, r.body,
	CASE WHEN JSON_VALID(CONVERT(r.body USING utf8mb4)) AND CONVERT(CONVERT(r.body USING utf8mb4) USING binary) = r.body
		THEN CONVERT(r.body USING utf8mb4) END AS json
FROM (SELECT * FROM {{claims}} UNION ALL SELECT * FROM {{older}}) c
	LEFT JOIN {{results}} r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k AND r.keep_until > {{now}}
WHERE c.ends_at + CASE WHEN c.state > 2 THEN GREATEST(c.keep_key, c.keep_audit) ELSE c.keep_key END > {{now}}
//
