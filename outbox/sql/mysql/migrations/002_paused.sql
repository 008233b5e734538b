-- The topics whose relays take no messages.
CREATE TABLE IF NOT EXISTS {{paused}} (
	topic VARBINARY(255) NOT NULL,
	since BIGINT         NOT NULL,
	PRIMARY KEY (topic)
) ENGINE = InnoDB;
