SELECT first_fence, name, data FROM {{steps}} WHERE k IN ({{rows: ?}}) ORDER BY first_fence, n
