-- oldest: 1
-- Tags by which people find keys, an index of IDs, and sightings. Programs of earlier versions go on: they leave tags
-- as they are. No change of a table copies it. The columns take no time; the indexes are built while claims go on,
-- which reads the table once, and needs a tenth of its space for the table of claims.
DELIMITER //

DROP PROCEDURE IF EXISTS {{change_table}}
//

-- Changes a table, unless that was done before. Each change needs the table for itself, for a moment. It waits a
-- second for that, because all operations wait behind it, and tries again for two minutes.
CREATE PROCEDURE {{change_table}} (the_table TEXT, changes TEXT) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
	DECLARE tries INT DEFAULT 0;
	SET @retrysafe_change = CONCAT('ALTER TABLE ', the_table, ' ', changes);
	PREPARE change_table FROM @retrysafe_change;
	SET @retrysafe_wait = @@SESSION.lock_wait_timeout;
	SET SESSION lock_wait_timeout = 1;
	WHILE tries < 60 DO
		SET tries = tries + 1;
		BEGIN
			DECLARE CONTINUE HANDLER FOR 1060, 1061 BEGIN END;
			DECLARE EXIT HANDLER FOR 1205
			BEGIN
				IF tries = 60 THEN
					RESIGNAL;
				END IF;
				DO SLEEP(1);
			END;
			EXECUTE change_table;
			SET tries = 60;
		END;
	END WHILE;
	SET SESSION lock_wait_timeout = @retrysafe_wait;
	DEALLOCATE PREPARE change_table;
END
//

-- tags are lines name=value. They are those of the record whose first_fence is tags_of: a program of an earlier version
-- leaves them behind when the key starts anew.
CALL {{change_table}} ('{{claims}}', 'ADD COLUMN tags VARBINARY(647), ADD COLUMN tags_of BIGINT, ALGORITHM = INSTANT')
//

CALL {{change_table}} ('{{older}}', 'ADD COLUMN tags VARBINARY(647), ADD COLUMN tags_of BIGINT, ALGORITHM = INSTANT')
//

CALL {{change_table}} ('{{claims}}', 'ADD INDEX id (id, first_fence), ALGORITHM = INPLACE, LOCK = NONE')
//

CALL {{change_table}} ('{{older}}', 'ADD INDEX id (id, first_fence), ALGORITHM = INPLACE, LOCK = NONE')
//

DROP PROCEDURE {{change_table}}
//

-- A row for each tag of a record. Rows whose record is gone are found by nobody, until a sweep deletes them.
CREATE TABLE IF NOT EXISTS {{tags}} (
	k           BINARY(16)     NOT NULL,
	first_fence BIGINT         NOT NULL,
	tag         VARBINARY(161) NOT NULL, -- name=value
	PRIMARY KEY (k, first_fence, tag),
	KEY tag (tag, first_fence)
) ENGINE = InnoDB
//

-- How often requests have found a record.
CREATE TABLE IF NOT EXISTS {{sightings}} (
	k           BINARY(16) NOT NULL,
	first_fence BIGINT     NOT NULL,
	kind        TINYINT    NOT NULL, -- 1 replayed, 2 waiting, 3 in flight, 4 mismatch, 5 refused
	seen        BIGINT     NOT NULL, -- how often
	first_at    BIGINT     NOT NULL,
	last_at     BIGINT     NOT NULL,
	code        INT        NOT NULL, -- of the answer that the last one got
	PRIMARY KEY (k, first_fence, kind)
) ENGINE = InnoDB
//

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
		THEN CONVERT(r.body USING utf8mb4) END AS json,
	CONVERT({{own_tags}} USING utf8mb4) AS tags,
	(SELECT SUM(s.seen) FROM {{sightings}} s WHERE s.k = c.k AND s.first_fence = c.first_fence AND s.kind <> 2) AS seen
FROM (SELECT * FROM {{claims}} UNION ALL SELECT * FROM {{older}}) c
	LEFT JOIN {{results}} r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k AND r.keep_until > {{now}}
WHERE c.ends_at + CASE WHEN c.state > 2 THEN GREATEST(c.keep_key, c.keep_audit) ELSE c.keep_key END > {{now}}
//
