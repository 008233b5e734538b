-- The next blocks, and where each ends; NULL: the last one.
SELECT b.first_fence, (SELECT MIN(n.first_fence) FROM {{blocks}} n WHERE n.first_fence > b.first_fence), b.scopes
FROM {{blocks}} b WHERE b.first_fence >= {{from}} ORDER BY b.first_fence LIMIT {{rows: ?}}
