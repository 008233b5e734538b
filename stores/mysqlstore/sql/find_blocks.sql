-- The newest blocks that may have what the search looks for.
SELECT b.first_fence FROM {{blocks}} b FORCE INDEX (PRIMARY) WHERE b.first_fence < {{before}} AND LOCATE({{rows: ?}}, b.scopes) > 0
ORDER BY b.first_fence DESC LIMIT {{limit}}
