-- Marks the rows of these keys, so that the ends of their attempts are notified. Keys in the order of k.
UPDATE {{schema}}.claims c SET waiters = true FROM {{p: k uuid}} WHERE c.k = p.k AND c.state = 1 AND NOT c.waiters
