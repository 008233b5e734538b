GRANT EXECUTE ON FUNCTION {{save}}(text, text, text, text, jsonb), {{save}}(text, text, jsonb, text, jsonb),
	{{save}}(text, text, bytea, text, jsonb) TO $1;
