-- Completes an attempt in one round trip, or fails.
CALL {{store_complete}} ({{rows: ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?}})
