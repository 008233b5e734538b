SELECT k, first_fence, state, scope FROM {{claims}} FORCE INDEX (first) WHERE {{where}}
UNION ALL
SELECT k, first_fence, state, scope FROM {{older}} FORCE INDEX (first) WHERE {{where}}
