-- Times are microseconds since 1970 on the server's clock.
CREATE TABLE {{messages}} (
	id        bigint   NOT NULL GENERATED ALWAYS AS IDENTITY,
	key       bytea    NOT NULL,
	topic     bytea    NOT NULL,
	aggregate bytea    NOT NULL, -- empty: no order
	header    bytea    NOT NULL, -- JSON; empty: none
	body      bytea    NOT NULL,
	digest    bytea    NOT NULL, -- of all the above but the key
	saved_by  bytea    NOT NULL, -- the attempt that the key is derived from; empty: none
	saved_at  bigint   NOT NULL,
	due_at    bigint   NOT NULL, -- pending: when to try it next, or when its lease ends; after that: when it was sent or died
	owner     bytea    NOT NULL, -- of the lease; empty: there is none
	tries     integer  NOT NULL,
	state     smallint NOT NULL, -- 1 pending, 2 sent, 3 dead
	error     text     NOT NULL, -- of the last try
	CONSTRAINT {{index pkey}} PRIMARY KEY (id),
	CONSTRAINT {{index key}} UNIQUE (key)
) WITH (
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
	autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
	autovacuum_vacuum_cost_delay = 1
);

-- Small, however many sent messages are kept.
CREATE INDEX {{index due}} ON {{messages}} (due_at, id) WHERE state = 1;

CREATE INDEX {{index free}} ON {{messages}} (due_at, id) WHERE state = 1 AND aggregate = '';

CREATE INDEX {{index order}} ON {{messages}} (aggregate, id) WHERE state <> 2 AND aggregate <> '';

CREATE INDEX {{index dead}} ON {{messages}} (id) WHERE state = 3;

CREATE INDEX {{index sent}} ON {{messages}} (due_at) WHERE state = 2;
