UPDATE {{schema}}.locks SET holder = $2, until = {{schema}}.clock() + $3::bigint
WHERE name = $1 AND (until <= {{schema}}.clock() OR holder = $2)
