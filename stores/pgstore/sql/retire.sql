-- Puts aside what is left of expired records: readable ones go to the older ones, steps go. Keys in the order of k.
WITH gone AS (
	DELETE FROM {{schema}}.claims c USING {{p: k uuid}} WHERE c.k = p.k AND c.ends_at + c.keep_key <= {{schema}}.clock() RETURNING c.*
), steps AS (
	DELETE FROM {{schema}}.steps s USING gone g WHERE s.k = g.k AND s.first_fence = g.first_fence
)
INSERT INTO {{schema}}.older SELECT g.* FROM gone g WHERE g.state > 2 AND g.ends_at + g.keep_audit > {{schema}}.clock()
