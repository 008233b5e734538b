-- Times are microseconds since 1970 on the machine's clock.
CREATE TABLE {{messages}} (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	key       BLOB    NOT NULL UNIQUE,
	topic     BLOB    NOT NULL,
	aggregate BLOB    NOT NULL, -- empty: no order
	header    BLOB    NOT NULL, -- JSON; empty: none
	digest    BLOB    NOT NULL, -- of topic, aggregate, header and body
	saved_by  BLOB    NOT NULL, -- the attempt that the key is derived from; empty: none
	saved_at  INTEGER NOT NULL,
	due_at    INTEGER NOT NULL, -- pending: when to try it next, or when its lease ends; after that: when it was sent or died
	owner     BLOB    NOT NULL, -- of the lease; empty: there is none
	tries     INTEGER NOT NULL,
	state     INTEGER NOT NULL, -- 1 pending, 2 sent, 3 dead
	error     TEXT    NOT NULL, -- of the last try
	body      BLOB    NOT NULL
);

-- Small, however many sent messages are kept.
CREATE INDEX {{index due}} ON {{messages}} (due_at, id) WHERE state = 1;

CREATE INDEX {{index free}} ON {{messages}} (due_at, id) WHERE state = 1 AND aggregate = x'';

CREATE INDEX {{index order}} ON {{messages}} (aggregate, id) WHERE state <> 2 AND aggregate <> x'';

CREATE INDEX {{index dead}} ON {{messages}} (id) WHERE state = 3;

CREATE INDEX {{index sent}} ON {{messages}} (due_at) WHERE state = 2;
