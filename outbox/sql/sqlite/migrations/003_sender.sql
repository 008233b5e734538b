-- The first due message of each sender of a topic.
CREATE INDEX {{index sender}} ON {{messages}} (topic, saved_by, due_at, id) WHERE state = 1 AND saved_by <> x'';
