SELECT *, first_fence AS place FROM {{schema}}.claims WHERE id = $8 UNION ALL SELECT *, first_fence FROM {{schema}}.older WHERE id = $8
