app.post('/charges', async (req, res) => {
  const { customer, amount } = req.body;
  if (!(amount > 0)) {
    return res.status(400).json({ error: 'amount must be positive' });
  }
  const { rows } = await pool.query(
    `WITH charge AS (
       INSERT INTO charges (customer, amount) VALUES ($2, $3)
       RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
     ) SELECT answer, retrysafe.complete($1, answer, 201) FROM charge`,
    [req.get('Retrysafe-Lease'), customer, amount]);
  // The statement has ended: charge and answer are committed together.
  res.status(201).type('application/json').send(rows[0].answer);
});
