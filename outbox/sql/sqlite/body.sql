SELECT body FROM {{messages}} WHERE key = ?1
