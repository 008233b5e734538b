CALL {{add_days}} ({{rows: ?}})
