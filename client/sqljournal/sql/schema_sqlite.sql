CREATE TABLE IF NOT EXISTS retrysafe_journal (
    client     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    intent     TEXT    NOT NULL,
    key_sent   TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    url        TEXT    NOT NULL,
    credential TEXT    NOT NULL,
    header     TEXT    NOT NULL, -- JSON
    body       BLOB    NOT NULL, -- exactly as sent
    begun_ms   INTEGER NOT NULL, -- Unix time by the client's clock
    given_up   TEXT    NOT NULL, -- why it is not sent any more; empty: it is pending
    PRIMARY KEY (client, id)
) STRICT
