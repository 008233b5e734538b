SELECT kind, count, first_at, last_at, code FROM retrysafe_sightings WHERE record = ?1 ORDER BY kind
