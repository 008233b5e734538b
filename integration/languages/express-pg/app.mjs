// An Express service with pg behind `retrysafe proxy`.
import express from 'express';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
// Without these listeners, a connection that breaks ends the process: one that is idle, and one that a handler uses.
pool.on('error', (err) => console.error(err));
pool.on('connect', (client) => client.on('error', (err) => console.error(err)));

const app = express();
app.use(express.json());

app.post('/charges', async (req, res) => {
  const { customer, amount } = req.body;
  const lease = req.get('Retrysafe-Lease');
  if (!(amount > 0)) {
    return res.status(400).json({ error: 'amount must be positive' });
  }
  const client = await pool.connect();
  let answer;
  try {
    await client.query('BEGIN');
    await client.query('SELECT retrysafe.hold($1)', [lease]); // nothing commits without complete
    const { rows } = await client.query(
      'INSERT INTO charges (customer, amount) VALUES ($1, $2) RETURNING id', [customer, amount]);
    answer = JSON.stringify({ id: Number(rows[0].id), amount });
    await client.query('SELECT retrysafe.complete($1, $2, 201)', [lease, answer]);
    await client.query('COMMIT');
  } catch (err) {
    client.release(err); // closes the connection, which rolls back
    throw err;
  }
  client.release();
  res.status(201).type('application/json').send(answer);
});

app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1');
