SELECT id, customer, amount, order_id FROM charges ORDER BY id
