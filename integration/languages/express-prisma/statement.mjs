app.post('/charges', async (req, res) => {
  const { customer, amount } = req.body;
  if (!(amount > 0)) {
    return res.status(400).json({ error: 'amount must be positive' });
  }
  const lease = req.get('Retrysafe-Lease');
  const [{ answer }] = await prisma.$queryRaw`WITH charge AS (
      INSERT INTO charges (customer, amount) VALUES (${customer}, ${amount})
      RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
    ) SELECT answer, retrysafe.complete(${lease}, answer, 201)::text FROM charge`;
  // The statement has ended: charge and answer are committed together.
  res.status(201).type('application/json').send(answer);
});
