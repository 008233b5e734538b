-- The topics whose relays take no messages.
CREATE TABLE {{paused}} (
	topic bytea  NOT NULL,
	since bigint NOT NULL,
	CONSTRAINT {{index paused_pkey}} PRIMARY KEY (topic)
);
