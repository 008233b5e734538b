CREATE TABLE answers (
	caller  text  NOT NULL,
	key     text  NOT NULL,
	request bytea NOT NULL,
	answer  text,
	at      timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (caller, key)
);
