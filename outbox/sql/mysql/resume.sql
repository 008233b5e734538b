DELETE FROM {{paused}} WHERE topic = ?1
