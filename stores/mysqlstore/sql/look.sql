-- What tells a waiter that an attempt has ended or given up.
SELECT k, fence, state, state = 1 AND ends_at <= {{now}} FROM {{claims}} FORCE INDEX (PRIMARY) WHERE k IN ({{rows: ?}})
