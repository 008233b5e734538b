-- Where a block ends; NULL: it is the last one. For several blocks at once the server would read all blocks for each.
SELECT MIN(first_fence) FROM {{blocks}} WHERE first_fence > {{rows: ?}}
