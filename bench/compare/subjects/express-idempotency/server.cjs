// The orders API on Express behind express-idempotency, as its README shows it: the middleware with its defaults on every POST, and
// handlers that leave at a hit.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const express = require('express');
const { idempotency, getSharedIdempotencyService } = require('express-idempotency');

const [port, effects] = process.argv.slice(2);
const lineBytes = 17; // of the file that has a line for each effect

const app = express();
app.get('/effects', (req, res) => {
  res.json({ effects: fs.statSync(effects).size / lineBytes });
});
app.use((req, res, next) => {
  const known = ['Bearer a', 'Bearer b'].includes(req.get('Authorization'));
  return known ? next() : res.sendStatus(401);
});
app.use(express.json());
app.post('*', idempotency());

// once is a handler that is not called at a hit: then the middleware has answered.
const once = (handler) => (req, res) => {
  if (!getSharedIdempotencyService().isHit(req)) {
    handler(req, res);
  }
};

const create = (more) => (req, res) => {
  const id = crypto.randomBytes(8).toString('hex');
  fs.appendFileSync(effects, id + '\n');
  res.set('Location', '/orders/' + id);
  res.set('X-Request-Id', crypto.randomUUID());
  res.cookie('seen', id);
  res.status(201).json({ id, amount: String(req.body.amount), ...more });
};

app.post('/orders', once(create()));
app.post('/others', once(create()));
app.post('/orders/large', once(create({ lines: 'x'.repeat(1 << 20) })));
app.post('/orders/slow', once((req, res) => setTimeout(create(), 1000, req, res)));
app.post('/orders/failing', once((req, res) => res.status(402).json({ error: 'no money' })));
app.post('/orders/broken', once((req, res) => res.status(500).json({ error: 'broken' })));
app.get('/orders', (req, res) => res.json({ orders: fs.statSync(effects).size / lineBytes }));

fs.closeSync(fs.openSync(effects, 'a'));
app.listen(Number(port), '127.0.0.1');
