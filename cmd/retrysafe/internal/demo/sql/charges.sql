CREATE TABLE charges (
	id         INTEGER PRIMARY KEY,
	customer   TEXT    NOT NULL,
	amount     INTEGER NOT NULL, -- cents
	order_id   TEXT    NOT NULL,
	charge_key TEXT    UNIQUE,   -- only requests to /v2/charges have one
	created_at TEXT    NOT NULL
)
