-- Completes an attempt in one round trip, or fails.
CALL {{complete}} ({{rows: ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?}})
