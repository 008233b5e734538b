UPDATE {{schema}}.locks SET until = 0 WHERE name = $1 AND holder = $2
