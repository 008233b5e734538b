SELECT 1 FROM pg_advisory_xact_lock(hashtext('retrysafe outbox migrate'))
