INSERT INTO charges (customer, amount, order_id, charge_key, created_at)
VALUES (?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
ON CONFLICT (charge_key) DO NOTHING
