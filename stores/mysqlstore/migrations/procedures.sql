-- The procedures of this version. The last migration ends with this file, which replaces those of earlier versions: a
-- change here comes with another migration. Procedures that are replaced lose the rights to them: a service's account gets
-- its grants again.
--
-- With them a service in any language claims keys, and completes them in its own transaction. The public ones
-- run with the rights of their owner: the account of a service may call them, and needs no right to the tables. Those that
-- only other procedures call have no rights of their own. Text comes as the bytes that the connection sends.
--
-- An error does not end a transaction in MySQL. Therefore complete, fail and save_step roll it back themselves: a service
-- that ignores the error of a lost lease commits nothing of its work. MariaDB may answer an UPDATE or a DELETE that
-- KILL QUERY interrupts as if it had found no row, and then a procedure goes on: they count the rows that they change.

-- A procedure keeps the mode under which it was made.
SET SESSION sql_mode = 'STRICT_ALL_TABLES'
//

DROP PROCEDURE IF EXISTS {{store_complete}}
//

-- Completes an attempt of a Store that holds its key, as a transaction of its own. If the attempt does not hold it, the
-- procedure changes nothing and fails with SQLSTATE 45000: the program reads why. It runs with the rights of its caller.
CREATE PROCEDURE {{store_complete}} (the_key BINARY(16), the_owner BINARY(16), the_fence BIGINT,
	new_state INT, new_code INT, new_omitted INT, new_replay BIGINT, new_keep BIGINT, new_audit BIGINT,
	new_meta LONGBLOB, new_body LONGBLOB) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
	DECLARE ended, due BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK;
		RESIGNAL;
	END;
	START TRANSACTION;
	SELECT {{late}} INTO ended FROM {{claims}} FORCE INDEX (PRIMARY)
		WHERE k = the_key AND owner = the_owner AND fence = the_fence AND state = 1 AND {{late}} < ends_at + keep_key
		FOR UPDATE;
	IF ended IS NULL THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the attempt does not hold its key';
	END IF;
	SET due = (ended + GREATEST(new_keep, new_audit)) DIV 60000000;
	-- Looking a little late costs nothing, and an unchanged value leaves the index alone.
	UPDATE {{claims}} SET state = new_state, code = new_code, omitted = new_omitted, ends_at = ended,
		keep_replay = new_replay, keep_key = new_keep, keep_audit = new_audit,
		sweep_at = CASE WHEN sweep_at BETWEEN due AND due + 3 THEN sweep_at ELSE due END
		WHERE k = the_key;
	IF ROW_COUNT() <> 1 THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the server was told to interrupt the update';
	END IF;
	INSERT INTO {{results}} (ended_at, k, keep_until, meta, body)
		VALUES (ended, the_key, ended + GREATEST(new_replay, new_audit), new_meta, new_body);
	COMMIT;
END
//

DROP PROCEDURE IF EXISTS {{hash_key}}
//

-- Computes the first 16 bytes of SHA-256 over the scope, the ID and, unless it is NULL, a name, each behind its length
-- as a varint. Without a name that is the digest of a key.
CREATE PROCEDURE {{hash_key}} (the_scope LONGBLOB, the_id LONGBLOB, the_name LONGBLOB, OUT digest BINARY(16))
	SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE joined, part LONGBLOB DEFAULT '';
	DECLARE i, n BIGINT DEFAULT 0;
	WHILE i < CASE WHEN the_name IS NULL THEN 2 ELSE 3 END DO
		SET i = i + 1;
		SET part = ELT(i, the_scope, the_id, the_name);
		SET n = LENGTH(part);
		WHILE n > 127 DO
			SET joined = CONCAT(joined, CHAR(n & 127 | 128));
			SET n = n >> 7;
		END WHILE;
		SET joined = CONCAT(joined, CHAR(n), part);
	END WHILE;
	SET digest = UNHEX(LEFT(SHA2(joined, 256), 32));
END
//

DROP PROCEDURE IF EXISTS {{read_lease}}
//

-- Reads the token of a lease, which claim makes.
CREATE PROCEDURE {{read_lease}} (lease LONGTEXT CHARACTER SET utf8mb4, OUT the_key BINARY(16), OUT the_owner BINARY(16),
	OUT the_fence BIGINT) SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE raw VARBINARY(60);
	IF (CHAR_LENGTH(lease) = 57 AND BINARY LEFT(lease, 3) = 'v1.' AND SUBSTRING(lease, 4) NOT REGEXP '[^A-Za-z0-9_-]') IS NOT TRUE THEN
		SIGNAL SQLSTATE 'RS002' SET MYSQL_ERRNO = 50002, MESSAGE_TEXT =
			'retrysafe: this is not a lease token: pass Retrysafe-Lease as it came, or the column lease of retrysafe_claim';
	END IF;
	SET raw = FROM_BASE64(CONCAT(REPLACE(REPLACE(SUBSTRING(lease, 4), '-', '+'), '_', '/'), '=='));
	SET the_key = SUBSTRING(raw, 1, 16);
	SET the_owner = SUBSTRING(raw, 17, 16);
	SET the_fence = CAST(CAST(CONV(HEX(SUBSTRING(raw, 33, 8)), 16, 10) AS UNSIGNED) AS SIGNED);
END
//

DROP PROCEDURE IF EXISTS {{interrupted}}
//

-- Fails for a change that the server has interrupted and not reported: nothing has changed.
CREATE PROCEDURE {{interrupted}} (verb VARCHAR(20) CHARACTER SET utf8mb4) SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT
		CONCAT('retrysafe: ', verb, ': the server was told to interrupt it (KILL QUERY). Roll back and try again.');
	SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = message;
END
//

DROP PROCEDURE IF EXISTS {{lease_lost}}
//

-- Fails, and says why a lease does not hold its key.
CREATE PROCEDURE {{lease_lost}} (the_key BINARY(16), verb VARCHAR(20) CHARACTER SET utf8mb4) SQL SECURITY INVOKER
	READS SQL DATA
BEGIN
	DECLARE there INT;
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT CONCAT('retrysafe: ', verb, ' key ', LOWER(HEX(the_key)));
	SELECT COUNT(*) INTO there FROM {{claims}} c FORCE INDEX (PRIMARY)
		WHERE c.k = the_key AND (c.state = 2 OR {{late}} < c.ends_at + c.keep_key)
		LOCK IN SHARE MODE;
	IF there THEN
		SET message = CONCAT(message, ': the lease is lost, taken over or ended. Roll back.');
		SIGNAL SQLSTATE 'RS001' SET MYSQL_ERRNO = 50001, MESSAGE_TEXT = message;
	END IF;
	SET message = CONCAT(message, ': no such claim in this database, or expired. Roll back.');
	SIGNAL SQLSTATE 'RS003' SET MYSQL_ERRNO = 50003, MESSAGE_TEXT = message;
END
//

DROP PROCEDURE IF EXISTS {{ask_transaction}}
//

-- Says whether what the session writes is committed later, by its caller. Outside of a transaction a savepoint is gone at
-- once.
CREATE PROCEDURE {{ask_transaction}} (OUT inside INT) SQL SECURITY INVOKER CONTAINS SQL
BEGIN
	DECLARE CONTINUE HANDLER FOR 1305 SET inside = 0;
	SET inside = 1;
	SAVEPOINT retrysafe_ask;
	RELEASE SAVEPOINT retrysafe_ask;
END
//

DROP PROCEDURE IF EXISTS {{check_options}}
//

-- Refuses options that are no JSON object, and names in it that are not among the known ones.
CREATE PROCEDURE {{check_options}} (options LONGTEXT CHARACTER SET utf8mb4, known VARCHAR(80) CHARACTER SET utf8mb4)
	SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE all_names, name LONGTEXT CHARACTER SET utf8mb4;
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4;
	DECLARE i INT DEFAULT 0;
	IF options IS NOT NULL THEN
		IF NOT JSON_VALID(options) OR JSON_TYPE(options) <> 'OBJECT' THEN
			SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
				'retrysafe: the options are not a JSON object: pass NULL, or an object such as {"keep": 86400}';
		END IF;
		SET all_names = JSON_KEYS(options);
		WHILE i < JSON_LENGTH(all_names) DO
			SET name = JSON_UNQUOTE(JSON_EXTRACT(all_names, CONCAT('$[', i, ']')));
			IF NOT FIND_IN_SET(BINARY name, known) THEN
				SET message = CONCAT('retrysafe: no option "', LEFT(name, 20), '"; it may be ', REPLACE(known, ',', ', '));
				SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
			END IF;
			SET i = i + 1;
		END WHILE;
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{read_seconds}}
//

-- Reads an option that is a number of seconds, as microseconds. NULL: it is not there. 292 years are the longest.
CREATE PROCEDURE {{read_seconds}} (options LONGTEXT CHARACTER SET utf8mb4, name VARCHAR(20) CHARACTER SET utf8mb4,
	OUT micros BIGINT) SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE value LONGTEXT CHARACTER SET utf8mb4 DEFAULT JSON_EXTRACT(options, CONCAT('$.', name));
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4;
	SET micros = NULL;
	IF JSON_TYPE(value) <> 'NULL' THEN
		IF JSON_TYPE(value) NOT IN ('INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL') OR value + 0e0 <= 0 THEN
			SET message = CONCAT('retrysafe: the option ', name, ' is not a positive number of seconds, such as 30 or 0.5');
			SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
		END IF;
		SET micros = CASE WHEN value + 0e0 >= 9223372036 THEN 9223372036854775
			ELSE GREATEST(1, CAST(CAST(value AS DECIMAL(20, 6)) * 1000000 AS SIGNED)) END;
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{read_tags}}
//

-- Reads the option tags, as lines name=value. NULL: there are none.
CREATE PROCEDURE {{read_tags}} (options LONGTEXT CHARACTER SET utf8mb4, OUT tag_lines VARBINARY(647)) SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE value, all_names, name LONGTEXT CHARACTER SET utf8mb4;
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4;
	DECLARE i INT DEFAULT 0;
	DECLARE bad CONDITION FOR SQLSTATE 'RS006';
	SET tag_lines = NULL;
	SET value = JSON_EXTRACT(options, '$.tags');
	IF JSON_TYPE(value) NOT IN ('NULL', 'OBJECT') OR JSON_TYPE(value) = 'OBJECT' AND JSON_LENGTH(value) > 4 THEN
		SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the option tags is not an object with 4 names at most, such as {"order": "1234"}';
	END IF;
	SET all_names = CASE WHEN JSON_TYPE(value) = 'OBJECT' THEN JSON_KEYS(value) END;
	WHILE i < COALESCE(JSON_LENGTH(all_names), 0) DO
		SET name = JSON_UNQUOTE(JSON_EXTRACT(all_names, CONCAT('$[', i, ']')));
		IF name = '' OR CHAR_LENGTH(name) > 32 OR name COLLATE utf8mb4_bin REGEXP '[^-A-Za-z0-9._]' THEN
			SET message = CONCAT('retrysafe: the tag name "', LEFT(name, 40), '" is not 1 to 32 letters, digits, ''-'', ''_'' or ''.''');
			SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
		END IF;
		SET value = JSON_EXTRACT(options, CONCAT('$.tags."', name, '"'));
		SET value = CASE WHEN JSON_TYPE(value) = 'STRING' THEN JSON_UNQUOTE(value) END;
		IF (LENGTH(value) BETWEEN 1 AND 128 AND value NOT REGEXP '\\p{Cc}') IS NOT TRUE THEN
			SET message = CONCAT('retrysafe: the value of tag ', name, ' is not text of 1 to 128 bytes without control characters');
			SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
		END IF;
		SET tag_lines = CONCAT(CASE WHEN i > 0 THEN CONCAT(tag_lines, CHAR(10)) ELSE '' END, name, '=', value);
		SET i = i + 1;
	END WHILE;
END
//

DROP PROCEDURE IF EXISTS {{make_meta}}
//

-- Makes what describes an HTTP answer from the options content_type and headers.
CREATE PROCEDURE {{make_meta}} (options LONGTEXT CHARACTER SET utf8mb4, OUT new_meta LONGBLOB) SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE value, line, rest LONGTEXT CHARACTER SET utf8mb4;
	DECLARE name, word VARCHAR(200) CHARACTER SET utf8mb4;
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4;
	DECLARE i INT DEFAULT 0;
	DECLARE bad CONDITION FOR SQLSTATE 'RS006';
	SET value = JSON_EXTRACT(options, '$.content_type');
	SET line = CASE WHEN value IS NULL OR JSON_TYPE(value) = 'NULL' THEN 'application/json'
		WHEN JSON_TYPE(value) = 'STRING' THEN JSON_UNQUOTE(value) END;
	IF line IS NULL OR line REGEXP '[\\x00-\\x1f\\x7f]' THEN
		SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the option content_type is not a media type, such as "application/json"';
	END IF;
	SET new_meta = CONCAT('http/1', CHAR(10), 'Content-Type', CASE WHEN line = '' THEN '' ELSE CONCAT(': ', line) END, CHAR(10));
	SET value = JSON_EXTRACT(options, '$.headers');
	IF value IS NOT NULL AND JSON_TYPE(value) NOT IN ('NULL', 'ARRAY') THEN
		SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the option headers is not an array of lines, such as ["Location: /charges/17"]';
	END IF;
	WHILE i < CASE WHEN JSON_TYPE(value) = 'ARRAY' THEN JSON_LENGTH(value) ELSE 0 END DO
		SET rest = JSON_EXTRACT(value, CONCAT('$[', i, ']'));
		SET line = CASE WHEN JSON_TYPE(rest) = 'STRING' THEN JSON_UNQUOTE(rest) END;
		SET rest = SUBSTRING_INDEX(line, ':', 1);
		-- The collation: others have letters of other alphabets among a to z.
		IF (line LIKE '_%:%' AND CHAR_LENGTH(rest) <= 200 AND rest COLLATE utf8mb4_bin NOT REGEXP '[^-A-Za-z0-9!#$%&''*+.^_`|~]'
			AND line NOT REGEXP '[\\x00-\\x08\\x0a-\\x1f\\x7f]') IS NOT TRUE THEN
			SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
				'retrysafe: an element of headers is not a line such as "Location: /charges/17"';
		END IF;
		SET rest = LOWER(rest);
		-- Some servers take every byte but letters and digits for the same one: fields of ours are known in all spellings.
		IF rest REGEXP '^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|date|age|via|warning|content-length|set-cookie)$'
			OR rest REGEXP '^(idempotent[^a-z0-9]replayed|idempotency[^a-z0-9]status|retrysafe[^a-z0-9].*)$' THEN
			SET message = CONCAT('retrysafe: the header ', LEFT(rest, 30), ' cannot be stored: leave it out, every retry would get it');
			SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
		END IF;
		IF rest = 'content-type' THEN
			SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
				'retrysafe: the content type is among the headers: pass it as the option content_type';
		END IF;
		-- The canonical form: each word begins with a capital.
		SET name = '';
		SET rest = CONCAT(rest, '-');
		WHILE rest <> '' DO
			SET word = SUBSTRING_INDEX(rest, '-', 1);
			SET name = CONCAT(name, '-', UPPER(LEFT(word, 1)), SUBSTRING(word, 2));
			SET rest = SUBSTRING(rest, CHAR_LENGTH(word) + 2);
		END WHILE;
		SET rest = SUBSTRING(line, CHAR_LENGTH(name) + 1);
		WHILE LEFT(rest, 1) IN (' ', CHAR(9)) AND rest <> '' DO
			SET rest = SUBSTRING(rest, 2);
		END WHILE;
		WHILE RIGHT(rest, 1) IN (' ', CHAR(9)) AND rest <> '' DO
			SET rest = LEFT(rest, CHAR_LENGTH(rest) - 1);
		END WHILE;
		SET new_meta = CONCAT(new_meta, SUBSTRING(name, 2), ': ', rest, CHAR(10));
		SET i = i + 1;
	END WHILE;
	IF LENGTH(new_meta) > 65536 THEN
		SET message = CONCAT('retrysafe: content type and headers have ', LENGTH(new_meta), ' bytes, and the limit is 65536');
		SIGNAL bad SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{read_meta}}
//

-- Reads the content type and the header lines, as a JSON array, from what describes an HTTP answer.
CREATE PROCEDURE {{read_meta}} (meta LONGBLOB, OUT content_type LONGTEXT CHARACTER SET utf8mb4,
	OUT headers LONGTEXT CHARACTER SET utf8mb4) SQL SECURITY INVOKER NO SQL
BEGIN
	DECLARE rest LONGBLOB;
	DECLARE line LONGTEXT CHARACTER SET utf8mb4;
	IF LEFT(meta, 7) = CONCAT('http/1', CHAR(10)) AND NOT LOCATE(CHAR(0), meta) THEN
		SET rest = SUBSTRING(meta, 8);
		SET headers = '[]';
		WHILE LENGTH(rest) > 0 DO
			SET line = CONVERT(SUBSTRING_INDEX(rest, CHAR(10), 1) USING utf8mb4);
			SET rest = CASE WHEN LOCATE(CHAR(10), rest) THEN SUBSTRING(rest, LOCATE(CHAR(10), rest) + 1) END;
			IF line LIKE 'Content-Type: %' THEN
				SET content_type = SUBSTRING(line, 15);
			ELSEIF line LIKE '_%: %' AND LEFT(line, 1) NOT IN ('>', '@') THEN
				SET headers = JSON_ARRAY_APPEND(headers, '$', line);
			END IF;
		END WHILE;
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{end_attempt}}
//

-- Completes a key with an answer, in the caller's transaction. Windows that are NULL stay those of the claim, or become as
-- long as the one of replays. The answer is written before the record: if the server interrupts the procedure between them,
-- nothing is completed.
CREATE PROCEDURE {{end_attempt}} (lease LONGTEXT CHARACTER SET utf8mb4, verb VARCHAR(20) CHARACTER SET utf8mb4, new_state INT,
	new_code INT, new_omitted INT, new_meta LONGBLOB, new_body LONGBLOB, new_replay BIGINT, new_keep BIGINT, new_audit BIGINT)
	SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
	DECLARE the_key, the_owner BINARY(16);
	DECLARE the_fence, ended, was_end, replay, keep, audit BIGINT;
	DECLARE inside, mine, was_state, was_code, same INT;
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	CALL {{read_lease}} (lease, the_key, the_owner, the_fence);
	CALL {{ask_transaction}} (inside);
	IF NOT inside THEN
		SET message = CONCAT('retrysafe: ', verb, ' outside of a transaction: START TRANSACTION first, write, call it last, then COMMIT');
		SIGNAL SQLSTATE 'RS005' SET MYSQL_ERRNO = 50005, MESSAGE_TEXT = message;
	END IF;
	SELECT c.owner = the_owner AND c.fence = the_fence AND {{late}} < c.ends_at + c.keep_key, c.state, c.code, c.ends_at, {{late}},
		COALESCE(new_replay, c.keep_replay), COALESCE(new_keep, GREATEST(c.keep_key, COALESCE(new_replay, 0))),
		COALESCE(new_audit, GREATEST(c.keep_audit, COALESCE(new_replay, 0)))
		INTO mine, was_state, was_code, was_end, ended, replay, keep, audit
		FROM {{claims}} c FORCE INDEX (PRIMARY) WHERE c.k = the_key FOR UPDATE;
	IF mine AND was_state = 1 THEN
		INSERT INTO {{results}} (ended_at, k, keep_until, meta, body)
			VALUES (ended, the_key, ended + GREATEST(replay, audit), new_meta, new_body);
		UPDATE {{claims}} SET state = new_state, code = new_code, omitted = new_omitted, ends_at = ended,
			keep_replay = replay, keep_key = keep, keep_audit = audit, sweep_at = (ended + GREATEST(keep, audit)) DIV 60000000
			WHERE k = the_key;
		IF ROW_COUNT() <> 1 THEN
			CALL {{interrupted}} (verb);
		END IF;
		-- The savepoint is there until the transaction ends, and the variable names the key that was completed last in it.
		SET @retrysafe_completed = the_key;
		SAVEPOINT retrysafe_completed;
	ELSEIF mine AND was_state > 2 THEN
		SELECT r.meta = new_meta AND r.body = new_body INTO same FROM {{results}} r FORCE INDEX (PRIMARY)
			WHERE r.ended_at = was_end AND r.k = the_key LOCK IN SHARE MODE;
		IF was_state <> new_state OR was_code <> new_code OR NOT COALESCE(same, TRUE) THEN
			SET message = CONCAT('retrysafe: ', verb, ' key ', LOWER(HEX(the_key)), ': completed before, with another answer. Roll back.');
			SIGNAL SQLSTATE 'RS004' SET MYSQL_ERRNO = 50004, MESSAGE_TEXT = message;
		END IF;
		-- If another transaction has completed it, the work ran again because the answer to that COMMIT was lost. What it has
		-- written this time would be there twice.
		BEGIN
			DECLARE CONTINUE HANDLER FOR 1305 SET same = 0;
			SET same = @retrysafe_completed <=> the_key;
			RELEASE SAVEPOINT retrysafe_completed;
		END;
		IF NOT same THEN
			SET message = CONCAT('retrysafe: ', verb, ' key ', LOWER(HEX(the_key)), ': an earlier transaction has completed it. Roll back.');
			SIGNAL SQLSTATE 'RS004' SET MYSQL_ERRNO = 50004, MESSAGE_TEXT = message;
		END IF;
		SAVEPOINT retrysafe_completed;
	ELSE
		CALL {{lease_lost}} (the_key, verb);
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{end_http}}
//

-- Checks and saves the answer of complete and fail. If that fails it rolls the caller's transaction back. A partition can
-- only be made after that, because making it commits.
CREATE PROCEDURE {{end_http}} (lease LONGTEXT CHARACTER SET utf8mb4, verb VARCHAR(20) CHARACTER SET utf8mb4, new_state INT,
	new_body LONGBLOB, new_code INT, options LONGTEXT CHARACTER SET utf8mb4) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
	DECLARE lowest INT DEFAULT CASE new_state WHEN 3 THEN 200 ELSE 400 END;
	DECLARE keep BIGINT;
	DECLARE new_meta LONGBLOB;
	DECLARE message VARCHAR(128) CHARACTER SET utf8mb4;
	DECLARE EXIT HANDLER FOR 1526
	BEGIN
		ROLLBACK AND NO CHAIN NO RELEASE;
		CALL {{add_days}} (8);
		SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT =
			'retrysafe: the partition of today was missing and has been made: run the transaction again';
	END;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK AND NO CHAIN NO RELEASE;
		RESIGNAL;
	END;
	IF new_body IS NULL OR LENGTH(new_body) > 16777216 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the body is NULL, or longer than 16777216 bytes: pass the answer, or a reference to it; it may be empty';
	END IF;
	IF new_code NOT BETWEEN lowest AND lowest + 199 THEN
		SET message = CONCAT('retrysafe: ', verb, ' with the code ', new_code, CASE new_state
			WHEN 3 THEN ': it takes 200 to 399. For a final failure call retrysafe_fail.'
			ELSE ': it takes 400 to 599. For a success call retrysafe_complete.' END);
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = message;
	END IF;
	CALL {{check_options}} (options, 'content_type,headers,keep');
	CALL {{read_seconds}} (options, 'keep', keep);
	CALL {{make_meta}} (options, new_meta);
	CALL {{end_attempt}} (lease, verb, new_state, new_code, 0, new_meta, new_body, keep, NULL, NULL);
END
//

DROP PROCEDURE IF EXISTS {{complete}}
//

-- Ends the attempt of a lease with a success that every retry gets, in the caller's transaction: it is there if the
-- transaction commits. If the lease was lost it fails, and rolls the transaction back. code is 200 if it is NULL.
CREATE PROCEDURE {{complete}} (lease LONGTEXT CHARACTER SET utf8mb4, body LONGBLOB, code INT, options LONGTEXT CHARACTER SET utf8mb4)
	SQL SECURITY DEFINER MODIFIES SQL DATA
	CALL {{end_http}} (lease, 'complete', 3, body, COALESCE(code, 200), options)
//

DROP PROCEDURE IF EXISTS {{fail}}
//

-- Ends the attempt with a failure that every retry gets. code is 422 if it is NULL.
CREATE PROCEDURE {{fail}} (lease LONGTEXT CHARACTER SET utf8mb4, body LONGBLOB, code INT, options LONGTEXT CHARACTER SET utf8mb4)
	SQL SECURITY DEFINER MODIFIES SQL DATA
	CALL {{end_http}} (lease, 'fail', 4, body, COALESCE(code, 422), options)
//

DROP PROCEDURE IF EXISTS {{release}}
//

-- Gives the key up: nothing happened, and a retry runs.
CREATE PROCEDURE {{release}} (lease LONGTEXT CHARACTER SET utf8mb4) SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE the_key, the_owner BINARY(16);
	DECLARE the_fence BIGINT;
	DECLARE taken, held INT;
	CALL {{read_lease}} (lease, the_key, the_owner, the_fence);
	UPDATE {{claims}} c SET c.state = 2,
		c.ends_at = CASE WHEN c.steps > 0 THEN {{late}} ELSE 0 END,
		c.keep_replay = CASE WHEN c.steps > 0 THEN c.keep_replay ELSE 0 END,
		c.keep_audit = CASE WHEN c.steps > 0 THEN c.keep_audit ELSE 0 END,
		c.sweep_at = CASE WHEN c.steps > 0 THEN c.sweep_at ELSE ({{late}}) DIV 60000000 + 1 END,
		c.keep_key = CASE WHEN c.steps > 0 THEN c.keep_key ELSE 0 END
		WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key;
	IF ROW_COUNT() = 0 THEN
		SELECT COUNT(*), COALESCE(SUM(c.owner = the_owner AND c.fence = the_fence AND c.state = 1), 0) INTO taken, held
			FROM {{claims}} c FORCE INDEX (PRIMARY)
			WHERE c.k = the_key AND c.state <> 2 AND {{late}} < c.ends_at + c.keep_key LOCK IN SHARE MODE;
		IF held THEN
			CALL {{interrupted}} ('release');
		ELSEIF taken THEN
			CALL {{lease_lost}} (the_key, 'release');
		END IF;
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{extend}}
//

-- Makes the lease run for so many seconds from now. 0 ends it at once.
CREATE PROCEDURE {{extend}} (lease LONGTEXT CHARACTER SET utf8mb4, lease_for DECIMAL(20, 6)) SQL SECURITY DEFINER
	MODIFIES SQL DATA
BEGIN
	DECLARE the_key, the_owner BINARY(16);
	DECLARE the_fence, held BIGINT;
	CALL {{read_lease}} (lease, the_key, the_owner, the_fence);
	IF (lease_for >= 0) IS NOT TRUE THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: extend by no number of seconds, or a negative one: pass how long the lease is to run from now, such as 30';
	END IF;
	UPDATE {{claims}} c SET c.ends_at = {{late}} + CAST(LEAST(lease_for * 1000000, 9223372036854775) AS SIGNED)
		WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key;
	IF ROW_COUNT() = 0 THEN
		SELECT COUNT(*) INTO held FROM {{claims}} c FORCE INDEX (PRIMARY)
			WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key
			LOCK IN SHARE MODE;
		IF held THEN
			CALL {{interrupted}} ('extend');
		END IF;
		CALL {{lease_lost}} (the_key, 'extend');
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{save_step}}
//

-- Saves the result of a part of the work, which later attempts at the key get from step. The first result under a name
-- stays. In a transaction, it is there if that commits; outside of one it is there at once.
CREATE PROCEDURE {{save_step}} (lease LONGTEXT CHARACTER SET utf8mb4, step_name LONGBLOB, step_data LONGBLOB)
	SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE the_key, the_owner BINARY(16);
	DECLARE the_fence BIGINT;
	DECLARE inside, held INT;
	DECLARE names BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK AND NO CHAIN NO RELEASE;
		RESIGNAL;
	END;
	CALL {{read_lease}} (lease, the_key, the_owner, the_fence);
	IF COALESCE(LENGTH(step_name), 0) = 0 OR step_data IS NULL OR LENGTH(step_data) > 16777216 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: a step needs a name and up to 16777216 bytes of data, which may be empty but not NULL';
	ELSEIF LENGTH(step_name) > 2048 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the step''s name has more than 2048 bytes: use a shorter one, such as a digest';
	END IF;
	CALL {{ask_transaction}} (inside);
	IF NOT inside THEN
		START TRANSACTION READ WRITE;
	END IF;
	UPDATE {{claims}} c SET c.steps = c.steps + 1
		WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key;
	IF ROW_COUNT() = 0 THEN
		SELECT COUNT(*) INTO held FROM {{claims}} c FORCE INDEX (PRIMARY)
			WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key
			LOCK IN SHARE MODE;
		IF held THEN
			CALL {{interrupted}} ('save a step of');
		END IF;
		CALL {{lease_lost}} (the_key, 'save a step of');
	END IF;
	INSERT INTO {{steps}} (k, first_fence, name_digest, n, name, data)
		SELECT c.k, c.first_fence, UNHEX(LEFT(SHA2(step_name, 256), 32)), c.steps, step_name, step_data
		FROM {{claims}} c FORCE INDEX (PRIMARY) WHERE c.k = the_key
		ON DUPLICATE KEY UPDATE n = {{steps}}.n;
	-- A claim returns the names of all steps, in a text that is no longer than max_allowed_packet.
	SELECT SUM(2 * LENGTH(s.name) + 26) INTO names
		FROM {{claims}} c FORCE INDEX (PRIMARY) JOIN {{steps}} s FORCE INDEX (PRIMARY) ON s.k = c.k AND s.first_fence = c.first_fence
		WHERE c.k = the_key AND c.steps > 100;
	IF names > @@max_allowed_packet DIV 2 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the names of the steps of this key take too much space: use fewer steps, or shorter names';
	END IF;
	IF NOT inside THEN
		COMMIT AND NO CHAIN NO RELEASE;
	END IF;
END
//

DROP PROCEDURE IF EXISTS {{step}}
//

-- Returns one row with the column data: what was saved under a name, by this attempt or by an earlier one; NULL: nothing.
-- A transaction that sees the lease sees the steps of all earlier attempts. One that began before the claim may see
-- neither, and reads them again with a lock, which shows the present.
CREATE PROCEDURE {{step}} (lease LONGTEXT CHARACTER SET utf8mb4, step_name LONGBLOB) SQL SECURITY DEFINER READS SQL DATA
BEGIN
	DECLARE the_key, the_owner BINARY(16);
	DECLARE the_fence, held BIGINT;
	DECLARE found LONGBLOB;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	CALL {{read_lease}} (lease, the_key, the_owner, the_fence);
	SELECT c.first_fence, s.data INTO held, found FROM {{claims}} c FORCE INDEX (PRIMARY)
		LEFT JOIN {{steps}} s FORCE INDEX (PRIMARY) ON s.k = c.k AND s.first_fence = c.first_fence
			AND s.name_digest = UNHEX(LEFT(SHA2(step_name, 256), 32))
		WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key;
	IF held IS NULL THEN
		SELECT c.first_fence, s.data INTO held, found FROM {{claims}} c FORCE INDEX (PRIMARY)
			LEFT JOIN {{steps}} s FORCE INDEX (PRIMARY) ON s.k = c.k AND s.first_fence = c.first_fence
				AND s.name_digest = UNHEX(LEFT(SHA2(step_name, 256), 32))
			WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND c.state = 1 AND {{late}} < c.ends_at + c.keep_key
			LOCK IN SHARE MODE;
	END IF;
	IF held IS NULL THEN
		CALL {{lease_lost}} (the_key, 'read a step of');
	END IF;
	SELECT found AS data;
END
//

DROP PROCEDURE IF EXISTS {{child_key}}
//

-- Returns one row with the column child_key: the key for a call to another service, the same for the same key and name on
-- every attempt.
CREATE PROCEDURE {{child_key}} (lease LONGTEXT CHARACTER SET utf8mb4, name LONGBLOB) SQL SECURITY DEFINER READS SQL DATA
BEGIN
	DECLARE the_key, the_owner, child BINARY(16);
	DECLARE the_fence BIGINT;
	DECLARE the_scope, the_id LONGBLOB;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	CALL {{read_lease}} (lease, the_key, the_owner, the_fence);
	IF COALESCE(LENGTH(name), 0) = 0 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: a child key needs a name: pass one for the call, such as ''capture''';
	END IF;
	SELECT c.scope, c.id INTO the_scope, the_id FROM {{claims}} c FORCE INDEX (PRIMARY)
		WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND {{late}} < c.ends_at + c.keep_key;
	IF the_id IS NULL THEN
		SELECT c.scope, c.id INTO the_scope, the_id FROM {{claims}} c FORCE INDEX (PRIMARY)
			WHERE c.k = the_key AND c.owner = the_owner AND c.fence = the_fence AND {{late}} < c.ends_at + c.keep_key
			LOCK IN SHARE MODE;
	END IF;
	IF the_id IS NULL THEN
		CALL {{lease_lost}} (the_key, 'derive a child of');
	END IF;
	CALL {{hash_key}} (the_scope, the_id, name, child);
	SELECT LOWER(HEX(child)) AS child_key;
END
//

DROP PROCEDURE IF EXISTS {{claim_record}}
//

-- Takes a key for one attempt, or says what has become of it: one row. It is a transaction of its own, whatever the
-- isolation of the session, and refuses to run inside of another one. It waits a second at most for a row that another
-- transaction holds, such as that of a service between complete and COMMIT, and then says in_flight. Unless whole is true it
-- shows nothing of the content of a record that is of another request.
CREATE PROCEDURE {{claim_record}} (the_scope LONGBLOB, the_id LONGBLOB, the_fingerprint LONGBLOB,
	options LONGTEXT CHARACTER SET utf8mb4, whole INT) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
	DECLARE lasts, replay, taken, audited BIGINT;
	DECLARE asked LONGBLOB DEFAULT COALESCE(the_fingerprint, '');
	DECLARE new_tags VARBINARY(647);
	DECLARE option_value LONGTEXT CHARACTER SET utf8mb4;
	DECLARE the_key, me BINARY(16);
	DECLARE take INT DEFAULT 0;
	-- The record.
	DECLARE r_owner BINARY(16);
	DECLARE r_fence, r_first, r_claimed, r_end, r_replay, r_keep, r_audit BIGINT;
	DECLARE r_attempt, r_steps, r_code, r_state, r_omitted INT;
	DECLARE r_fingerprint, r_meta, r_body LONGBLOB;
	-- The answer.
	DECLARE verdict VARCHAR(10) CHARACTER SET utf8mb4;
	DECLARE lease VARCHAR(57) CHARACTER SET utf8mb4;
	DECLARE content_type, headers, step_list LONGTEXT CHARACTER SET utf8mb4;
	DECLARE step_name, step_data, data LONGBLOB;
	DECLARE time_read BIGINT;
	DECLARE tries, expired, failed, held_up, no_more, hidden INT DEFAULT 0;
	CALL {{check_options}} (options, 'lease_for,keep,keep_key,keep_audit,take_over,owner,tags');
	CALL {{read_seconds}} (options, 'lease_for', lasts);
	CALL {{read_seconds}} (options, 'keep', replay);
	CALL {{read_seconds}} (options, 'keep_key', taken);
	CALL {{read_seconds}} (options, 'keep_audit', audited);
	CALL {{read_tags}} (options, new_tags);
	SET lasts = COALESCE(lasts, 30000000);
	SET replay = COALESCE(replay, 86400000000);
	SET taken = GREATEST(replay, COALESCE(taken, 0));
	SET audited = GREATEST(replay, COALESCE(audited, 0));
	SET option_value = JSON_EXTRACT(options, '$.take_over');
	IF JSON_TYPE(option_value) NOT IN ('BOOLEAN', 'NULL') THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT = 'retrysafe: the option take_over is neither true nor false';
	END IF;
	SET take = COALESCE(option_value = 'true', 0);
	SET option_value = JSON_EXTRACT(options, '$.owner');
	IF JSON_TYPE(option_value) <> 'NULL' THEN
		SET option_value = REPLACE(JSON_UNQUOTE(option_value), '-', '');
		IF CHAR_LENGTH(option_value) <> 32 OR option_value REGEXP '[^0-9A-Fa-f]' THEN
			SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
				'retrysafe: the option owner is not a UUID: pass a random one, and the same one to repeat the claim';
		END IF;
		SET me = UNHEX(option_value);
	ELSE
		SET me = RANDOM_BYTES(16);
	END IF;
	IF (LENGTH(the_id) BETWEEN 1 AND 1024 AND LENGTH(the_scope) <= 1024) IS NOT TRUE THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the id needs 1 to 1024 bytes, and the scope up to 1024; a scope may be empty but not NULL';
	ELSEIF LENGTH(asked) > 1024 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: the fingerprint has more than 1024 bytes: pass a digest of the request, such as SHA2(request, 256)';
	END IF;
	-- With it, and a zone that has another offset at that time, a session would shift the clock.
	IF ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) > 60 THEN
		SIGNAL SQLSTATE 'RS006' SET MYSQL_ERRNO = 50006, MESSAGE_TEXT =
			'retrysafe: claim in a session whose variable timestamp is set: SET timestamp = DEFAULT first';
	END IF;
	CALL {{hash_key}} (the_scope, the_id, NULL, the_key);
	BEGIN
		DECLARE EXIT HANDLER FOR 1568 SIGNAL SQLSTATE 'RS005' SET MYSQL_ERRNO = 50005, MESSAGE_TEXT =
			'retrysafe: claim inside of a transaction, which it would have to commit: COMMIT or ROLLBACK first';
		SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	END;
	BEGIN
		DECLARE EXIT HANDLER FOR SQLEXCEPTION
		BEGIN
			ROLLBACK AND NO CHAIN NO RELEASE;
			RESIGNAL;
		END;
		DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
		attempts: LOOP
			IF tries > 0 THEN
				COMMIT AND NO CHAIN NO RELEASE;
				SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
			END IF;
			SET tries = tries + 1;
			IF tries > 16 THEN
				SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT =
					'retrysafe: claim: others have changed the key each time: call it again';
			END IF;
			START TRANSACTION READ WRITE;
			-- The time is read before the row: a lease that is extended meanwhile is not taken for abandoned.
			SET time_read = {{late}};
			SET r_state = NULL;
			SELECT c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
				c.attempt, c.steps, c.code, c.state, c.omitted, c.fingerprint, r.meta, r.body
				INTO r_owner, r_fence, r_first, r_claimed, r_end, r_replay, r_keep, r_audit,
				r_attempt, r_steps, r_code, r_state, r_omitted, r_fingerprint, r_meta, r_body
				FROM {{claims}} c FORCE INDEX (PRIMARY)
				LEFT JOIN {{results}} r FORCE INDEX (PRIMARY) ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k
					AND c.ends_at + c.keep_replay > time_read
				WHERE c.k = the_key;
			IF r_state IS NULL THEN
				SET failed = 0;
				BEGIN
					DECLARE CONTINUE HANDLER FOR 1062 SET failed = 1;
					DECLARE CONTINUE HANDLER FOR 1205 SET failed = 2;
					DECLARE CONTINUE HANDLER FOR 1213 SET failed = 1;
					SET time_read = {{late}};
					/*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ INSERT INTO {{claims}}
						(k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit, sweep_at,
						attempt, state, fingerprint, scope, id, tags, tags_of)
						VALUES (the_key, me, time_read, time_read, time_read, time_read + lasts, replay, taken, audited,
						(time_read + lasts + taken) DIV 60000000, 1, 1, asked, the_scope, the_id,
						new_tags, CASE WHEN new_tags IS NOT NULL THEN time_read END);
				END;
				IF failed = 2 THEN
					SET verdict = 'in_flight', held_up = 1;
					LEAVE attempts;
				ELSEIF failed THEN
					ITERATE attempts;
				END IF;
				SET verdict = 'acquired', r_fence = time_read, r_first = time_read, r_claimed = time_read,
					r_end = time_read + lasts, r_replay = replay, r_keep = taken, r_audit = audited,
					r_attempt = 1, r_steps = 0, r_state = 1, r_fingerprint = asked;
				LEAVE attempts;
			END IF;
			SET verdict = CASE WHEN r_end + r_keep <= time_read OR r_state = 1 AND r_owner = me THEN NULL
				WHEN r_fingerprint <> asked THEN 'mismatch' WHEN r_state > 2 THEN 'done'
				WHEN r_state = 1 AND r_end > time_read THEN 'in_flight' WHEN r_state = 1 AND NOT take THEN 'abandoned' END;
			IF verdict IS NOT NULL THEN
				LEAVE attempts;
			END IF;
			SET failed = 0;
			BEGIN
				DECLARE CONTINUE HANDLER FOR NOT FOUND SET failed = 1;
				DECLARE CONTINUE HANDLER FOR 1213 SET failed = 1;
				DECLARE CONTINUE HANDLER FOR 1205, 3572 SET failed = 2;
				/*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ SELECT
					c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_key, c.keep_audit,
					c.attempt, c.steps, c.state, c.fingerprint
					INTO r_owner, r_fence, r_first, r_claimed, r_end, r_keep, r_audit, r_attempt, r_steps, r_state, r_fingerprint
					FROM {{claims}} c FORCE INDEX (PRIMARY) WHERE c.k = the_key FOR UPDATE /*!80000 NOWAIT */;
			END;
			IF failed = 2 THEN
				SET verdict = 'in_flight', held_up = 1;
				LEAVE attempts;
			ELSEIF failed THEN
				ITERATE attempts;
			END IF;
			SET expired = r_end + r_keep <= time_read;
			IF NOT (expired OR r_state = 1 AND r_owner = me OR r_fingerprint = asked AND
				(r_state = 2 OR r_state = 1 AND r_end <= time_read AND take)) THEN
				ITERATE attempts;
			END IF;
			IF expired AND r_state > 2 AND r_end + r_audit > time_read THEN
				INSERT INTO {{older}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit,
					sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id, tags, tags_of)
					SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
					c.sweep_at, c.attempt, c.steps, c.code, c.state, c.omitted, c.fingerprint, c.scope, c.id,
					c.tags, c.tags_of
					FROM {{claims}} c FORCE INDEX (PRIMARY) WHERE c.k = the_key;
			ELSEIF expired AND r_steps > 0 THEN
				DELETE FROM {{steps}} WHERE k = the_key AND first_fence = r_first;
			END IF;
			SET time_read = {{late}};
			IF expired OR r_state <> 1 OR r_owner <> me THEN
				SET r_fence = GREATEST(r_fence + 1, time_read);
				SET r_attempt = r_attempt + 1;
			END IF;
			IF expired THEN
				SET r_first = r_fence, r_claimed = time_read, r_attempt = 1, r_steps = 0;
			END IF;
			SET verdict = 'acquired', r_end = time_read + lasts, r_replay = replay, r_keep = taken, r_audit = audited,
				r_state = 1, r_fingerprint = asked;
			UPDATE {{claims}} SET owner = me, fence = r_fence, first_fence = r_first, claimed_at = r_claimed, ends_at = r_end,
				keep_replay = r_replay, keep_key = r_keep, keep_audit = r_audit, sweep_at = (r_end + r_keep) DIV 60000000,
				attempt = r_attempt, steps = r_steps, code = 0, state = 1, omitted = 0, fingerprint = asked,
				tags = CASE WHEN expired THEN new_tags ELSE tags END, tags_of = CASE WHEN expired THEN r_first ELSE tags_of END
				WHERE k = the_key;
			IF ROW_COUNT() <> 1 THEN
				CALL {{interrupted}} ('claim');
			END IF;
			LEAVE attempts;
		END LOOP;
		IF verdict = 'acquired' AND new_tags IS NOT NULL THEN
			INSERT IGNORE INTO {{tags}} (k, first_fence, tag)
				SELECT c.k, c.first_fence, SUBSTRING_INDEX(SUBSTRING_INDEX(c.tags, CHAR(10), i.n), CHAR(10), -1)
				FROM {{claims}} c FORCE INDEX (PRIMARY)
				JOIN (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) i
					ON i.n <= 1 + LENGTH(c.tags) - LENGTH(REPLACE(c.tags, CHAR(10), ''))
				WHERE c.k = the_key AND c.tags_of = c.first_fence;
		END IF;
		IF r_state < 3 AND r_steps > 0 THEN
			SET step_list = '';
			BEGIN
				DECLARE saved CURSOR FOR SELECT s.name, s.data FROM {{steps}} s FORCE INDEX (PRIMARY)
					WHERE s.k = the_key AND s.first_fence = r_first ORDER BY s.n;
				DECLARE CONTINUE HANDLER FOR NOT FOUND SET no_more = 1;
				OPEN saved;
				FETCH saved INTO step_name, step_data;
				WHILE NOT no_more DO
					-- No text is longer than max_allowed_packet. Names have the half of it that data leave.
					SET data = CASE WHEN LENGTH(step_list) + 2 * LENGTH(step_data) < @@max_allowed_packet DIV 2
						THEN CONCAT('"', HEX(step_data), '"') ELSE 'null' END;
					SET step_list = CONCAT(step_list, ',{"name":"', HEX(step_name), '","data":', data, '}');
					FETCH saved INTO step_name, step_data;
				END WHILE;
				CLOSE saved;
			END;
			SET step_list = CONCAT('[', SUBSTRING(step_list, 2), ']');
		END IF;
		COMMIT AND NO CHAIN NO RELEASE;
	END;
	IF NOT whole AND NOT r_fingerprint <=> asked THEN
		SET r_fingerprint = NULL, r_code = NULL, r_omitted = NULL, r_meta = NULL, r_body = NULL, step_list = NULL, hidden = 1;
	END IF;
	IF verdict = 'acquired' THEN
		SET lease = CONCAT('v1.', TRIM(TRAILING '=' FROM REPLACE(REPLACE(
			TO_BASE64(CONCAT(the_key, me, UNHEX(LPAD(HEX(r_fence), 16, '0')))), '+', '-'), '/', '_')));
	ELSEIF r_state > 2 THEN
		CALL {{read_meta}} (r_meta, content_type, headers);
	END IF;
	-- Durations are seconds.
	SELECT verdict, lease, r_attempt AS attempt,
		CASE WHEN r_state > 2 THEN r_code END AS code, content_type, headers,
		CASE WHEN r_state > 2 AND NOT r_omitted THEN r_body END AS body,
		CASE WHEN r_state > 2 AND NOT hidden THEN r_state = 4 END AS failed, CASE WHEN r_state > 2 THEN r_omitted END AS omitted,
		CASE WHEN held_up THEN 1.000000 WHEN r_state = 1 THEN GREATEST(r_end - time_read, 0) * 0.000001 END AS lease_left,
		ELT(r_state, 'pending', 'released', 'succeeded', 'failed') AS state, r_fence AS fence, r_first AS first_fence,
		r_fingerprint AS stored_fingerprint, step_list AS steps,
		CASE WHEN r_state > 2 THEN r_meta END AS meta, GREATEST(time_read - r_claimed, 0) * 0.000001 AS age,
		CASE WHEN r_state > 1 THEN GREATEST(time_read - r_end, 0) * 0.000001 END AS ended_age,
		CASE WHEN r_state > 1 OR r_end <= time_read THEN GREATEST(r_end + r_replay - time_read, 0) * 0.000001 END AS replay_left,
		CASE WHEN r_state > 1 OR r_end <= time_read THEN GREATEST(r_end + r_keep - time_read, 0) * 0.000001 END AS key_left,
		CASE WHEN r_state > 1 OR r_end <= time_read THEN GREATEST(r_end + r_audit - time_read, 0) * 0.000001 END AS audit_left;
END
//

DROP PROCEDURE IF EXISTS {{claim}}
//

-- claim_record for services.
CREATE PROCEDURE {{claim}} (the_scope LONGBLOB, the_id LONGBLOB, the_fingerprint LONGBLOB, options LONGTEXT CHARACTER SET utf8mb4)
	SQL SECURITY DEFINER MODIFIES SQL DATA
	CALL {{claim_record}} (the_scope, the_id, the_fingerprint, options, FALSE)
//

-- Counts the keys that were first claimed within 24 hours, by the hour in UTC, from what their records say. It shows no
-- scope, key or answer, and reads with the rights of its owner, so that an account for monitoring needs no right but the
-- one to read it. The index of first_fence finds the rows: a first fence is not below the time of the first claim.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW {{activity}} AS
SELECT TIMESTAMPADD(HOUR, c.claimed_at DIV 3600000000, TIMESTAMP'1970-01-01 00:00:00') AS hour,
	COUNT(*) AS claims,
	COUNT(CASE WHEN c.state = 3 THEN 1 END) AS completed,
	COUNT(CASE WHEN c.state = 4 THEN 1 END) AS failed,
	COUNT(CASE WHEN c.state = 2 THEN 1 END) AS released,
	COUNT(CASE WHEN c.state = 1 AND c.ends_at > {{now}} THEN 1 END) AS in_flight,
	COUNT(CASE WHEN c.state = 1 AND c.ends_at <= {{now}} THEN 1 END) AS abandoned,
	COUNT(CASE WHEN c.attempt > 1 THEN 1 END) AS repeated,
	COUNT(CASE WHEN c.omitted THEN 1 END) AS omitted
FROM (
	SELECT claimed_at, ends_at, state, attempt, omitted FROM {{claims}} WHERE first_fence >= {{now}} - 86400000000
	UNION ALL
	SELECT claimed_at, ends_at, state, attempt, omitted FROM {{older}} WHERE first_fence >= {{now}} - 86400000000
) c
WHERE c.claimed_at >= {{now}} - 86400000000
GROUP BY 1
//
