SELECT EXISTS (SELECT 1 FROM {{results}} PARTITION ({{day}}) WHERE keep_until > {{now}} LOCK IN SHARE MODE)
