// The program of docs/frameworks/express-pg.md: an Express service with pg behind `retrysafe proxy`.

import express from 'express';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
pool.on('error', (err) => console.error(err)); // an idle connection was lost; the pool opens another one

const app = express();
app.use(express.json());

// page: begin
app.post('/charges', async (req, res) => {
  const { customer, amount } = req.body;
  if (!(amount > 0)) {
    return res.status(400).json({ error: 'amount must be positive' });
  }
  const client = await pool.connect();
  let answer;
  try {
    await client.query('BEGIN');
    const { rows } = await client.query(
      'INSERT INTO charges (customer, amount) VALUES ($1, $2) RETURNING id', [customer, amount]);
    answer = JSON.stringify({ id: Number(rows[0].id), amount });
    await client.query('SELECT retrysafe.complete($1, $2, 201)', [req.get('Retrysafe-Lease'), answer]);
    await client.query('COMMIT');
  } catch (err) {
    client.release(err); // closes the connection, which rolls back
    throw err;
  }
  client.release();
  res.status(201).type('application/json').send(answer);
});
// page: end

app.listen(Number(process.argv[2]), '127.0.0.1');
