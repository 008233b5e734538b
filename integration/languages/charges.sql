CREATE TABLE charges (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	customer text   NOT NULL,
	amount   bigint NOT NULL
);
