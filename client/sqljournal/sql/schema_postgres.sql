CREATE TABLE IF NOT EXISTS retrysafe_journal (
    client     text   NOT NULL,
    id         text   NOT NULL,
    intent     text   NOT NULL,
    key_sent   text   NOT NULL,
    method     text   NOT NULL,
    url        text   NOT NULL,
    credential text   NOT NULL,
    header     text   NOT NULL, -- JSON
    body       bytea  NOT NULL, -- exactly as sent
    begun_ms   bigint NOT NULL, -- Unix time by the client's clock
    given_up   text   NOT NULL, -- why it is not sent any more; empty: it is pending
    PRIMARY KEY (client, id)
)
