-- Times are microseconds since 1970 on the server's clock. IF NOT EXISTS, because MySQL commits each CREATE TABLE at
-- once: a migration that was killed is repeated.
CREATE TABLE IF NOT EXISTS {{messages}} (
	id        BIGINT         NOT NULL AUTO_INCREMENT,
	`key`     VARBINARY(255) NOT NULL,
	topic     VARBINARY(255) NOT NULL,
	aggregate VARBINARY(255) NOT NULL, -- empty: no order
	header    LONGBLOB       NOT NULL, -- JSON; empty: none
	digest    VARBINARY(32)  NOT NULL, -- of topic, aggregate, header and body
	saved_by  VARBINARY(32)  NOT NULL, -- the attempt that the key is derived from; empty: none
	saved_at  BIGINT         NOT NULL,
	due_at    BIGINT         NOT NULL, -- pending: when to try it next, or when its lease ends; after that: when it was sent or died
	owner     VARBINARY(32)  NOT NULL, -- of the lease; empty: there is none
	tries     INT            NOT NULL,
	state     TINYINT        NOT NULL, -- 1 pending, 2 sent, 3 dead
	ordered   TINYINT        NOT NULL, -- 1 if there is an aggregate
	clashes   INT            NOT NULL, -- how many other messages wanted the key: see save.sql
	error     TEXT CHARACTER SET utf8mb4 NOT NULL, -- of the last try
	body      LONGBLOB       NOT NULL,
	PRIMARY KEY (id),
	UNIQUE KEY {{index key}} (`key`),
	KEY {{index due}} (state, ordered, due_at),
	KEY {{index order}} (state, aggregate, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
