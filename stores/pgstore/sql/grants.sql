-- What {{role}} needs to use the store. It cannot make or drop tables: the partitions of new days are made by a
-- function that runs with its owner's rights, and those of past days are dropped by the owner of the tables.
GRANT USAGE ON SCHEMA {{schema}} TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{schema}}.claims, {{schema}}.older TO {{role}};
GRANT SELECT, INSERT, DELETE ON {{schema}}.steps TO {{role}};
-- Answers can be dropped (Purge), as claims can, and not changed.
GRANT SELECT, INSERT, DELETE ON {{schema}}.results TO {{role}};
-- Triggers, which run with their owner's rights, keep tags of clients, and delete sightings; sweeps index states and scopes.
GRANT SELECT, INSERT, DELETE ON {{schema}}.tags TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{schema}}.blocks TO {{role}};
GRANT SELECT, INSERT, UPDATE ON {{schema}}.sightings TO {{role}};
GRANT SELECT, UPDATE ON {{schema}}.locks, {{schema}}.progress TO {{role}};
GRANT SELECT ON {{schema}}.migrations, {{schema}}.records, {{schema}}.activity TO {{role}};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{schema}} TO {{role}};
