DELETE FROM {{results}} WHERE ended_at = {{rows: ? AND k = ?}}
