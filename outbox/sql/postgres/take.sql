UPDATE {{messages}}
SET owner = $1, due_at = {{clock}} + $2::bigint, tries = tries + 1
WHERE id = ANY (ARRAY(SELECT value::bigint FROM jsonb_array_elements_text($3::text::jsonb)))
