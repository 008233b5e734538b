SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)
