CREATE TABLE IF NOT EXISTS {{migrations}} (
	version    INT          NOT NULL PRIMARY KEY,
	name       VARCHAR(100) NOT NULL,
	applied_at TIMESTAMP    NOT NULL DEFAULT CURRENT_TIMESTAMP,
	oldest     INT          NOT NULL -- the version that a program must know at least to work with this one
) ENGINE = InnoDB
