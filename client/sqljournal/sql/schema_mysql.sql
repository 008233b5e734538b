CREATE TABLE IF NOT EXISTS retrysafe_journal (
    client     VARBINARY(255) NOT NULL,
    id         VARBINARY(64)  NOT NULL,
    intent     MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    key_sent   MEDIUMBLOB     NOT NULL,
    method     MEDIUMBLOB     NOT NULL,
    url        MEDIUMBLOB     NOT NULL,
    credential MEDIUMBLOB     NOT NULL,
    header     MEDIUMBLOB     NOT NULL, -- JSON
    body       LONGBLOB       NOT NULL, -- exactly as sent
    begun_ms   BIGINT         NOT NULL, -- Unix time by the client's clock
    given_up   MEDIUMBLOB     NOT NULL, -- why it is not sent any more; empty: it is pending
    PRIMARY KEY (client, id)
) ENGINE = InnoDB
