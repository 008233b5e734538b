SELECT state, count(*), count(*) FILTER (WHERE ends_at <= ?) FROM retrysafe_records GROUP BY state
