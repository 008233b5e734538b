-- Deletes the steps of a record but those whose names begin with a prefix.
DELETE FROM retrysafe_steps WHERE record = ?1 AND substr(name, 1, length(?2)) <> ?2
