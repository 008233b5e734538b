SELECT *, first_fence AS place FROM {{schema}}.claims UNION ALL SELECT *, first_fence FROM {{schema}}.older
