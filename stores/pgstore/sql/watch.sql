-- Asks to be told when the attempts that hold these keys end. Keys in the order of k.
UPDATE {{schema}}.claims c SET waiters = true FROM {{p: k uuid}} WHERE c.k = p.k AND c.state = 1 AND NOT c.waiters
