// The program of docs/frameworks/express-prisma.md: an Express service with Prisma behind `retrysafe proxy`.

import express from 'express';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './client/index.js';

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });

const app = express();
app.use(express.json());

// page: begin
app.post('/charges', async (req, res) => {
  const { customer, amount } = req.body;
  if (!(amount > 0)) {
    return res.status(400).json({ error: 'amount must be positive' });
  }
  const lease = req.get('Retrysafe-Lease');
  const answer = await prisma.$transaction(async (tx) => {
    await tx.$executeRaw`SELECT retrysafe.hold(${lease})`; // nothing commits without complete
    const charge = await tx.charge.create({ data: { customer, amount } });
    const answer = JSON.stringify({ id: Number(charge.id), amount });
    await tx.$executeRaw`SELECT retrysafe.complete(${lease}, ${answer}, 201)`;
    return answer;
  });
  // The transaction is committed: charge and answer are saved together.
  res.status(201).type('application/json').send(answer);
});
// page: end

app.listen(Number(process.argv[2]), '127.0.0.1');
