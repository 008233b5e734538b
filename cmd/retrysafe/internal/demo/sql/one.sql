SELECT id, customer, amount, order_id FROM charges WHERE id = ?
