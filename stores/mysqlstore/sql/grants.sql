-- What {{role}} needs to use the store. It cannot make or drop tables: the partitions of new days are made by a
-- procedure that runs with its owner's rights, and those of past days are dropped by an account that may alter tables.
GRANT SELECT, INSERT, UPDATE, DELETE ON {{claims}} TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{older}} TO {{role}};
GRANT SELECT, INSERT, DELETE ON {{steps}} TO {{role}};
GRANT SELECT, INSERT, DELETE ON {{tags}} TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{sightings}} TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{blocks}} TO {{role}};
GRANT SELECT, INSERT, UPDATE ON {{progress}} TO {{role}};
-- Answers can be dropped (Purge), as claims can, and not changed.
GRANT SELECT, INSERT, DELETE ON {{results}} TO {{role}};
GRANT SELECT ON {{migrations}} TO {{role}};
GRANT SELECT ON {{records}} TO {{role}};
GRANT SELECT ON {{activity}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{add_days}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{store_complete}} TO {{role}};
