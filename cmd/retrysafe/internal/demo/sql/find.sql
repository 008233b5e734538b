SELECT id, customer, amount, order_id FROM charges WHERE charge_key = ?
