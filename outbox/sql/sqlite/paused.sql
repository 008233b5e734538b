SELECT topic FROM {{paused}} ORDER BY topic
