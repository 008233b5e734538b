-- Extends the lease of the messages that no other relay has taken since.
UPDATE {{messages}}
SET due_at = {{clock}} + $2::bigint
WHERE owner = $1 AND id = ANY (ARRAY(SELECT value::bigint FROM jsonb_array_elements_text($3::text::jsonb)))
