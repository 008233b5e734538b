DELETE FROM {{blocks}} WHERE first_fence = {{rows: ?}}
