-- The topics whose relays take no messages.
CREATE TABLE {{paused}} (
	topic BLOB    NOT NULL PRIMARY KEY,
	since INTEGER NOT NULL
);
