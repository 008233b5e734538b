// The orders API for the subjects that run on Node: what orders.go and jobs.go are for Go.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');

const { ADDRESS, EFFECTS, STORE, DIR, PROFILE } = process.env;
const effectBytes = 17;
const paths = ['/orders', '/others', '/orders/slow', '/orders/large', '/orders/failing', '/orders/broken'];

fs.closeSync(fs.openSync(EFFECTS, 'a'));
const count = () => fs.statSync(EFFECTS).size / effectBytes;
const known = (authorization) => ['Bearer a', 'Bearer b'].includes(authorization);
const refusal = (status, error) => ({ status, body: { error } });

// create makes the effect.
function create(order) {
  const id = crypto.randomBytes(8).toString('hex');
  fs.appendFileSync(EFFECTS, id + '\n');
  return { id, amount: String(order.amount) };
}

// work does what a POST to the path asks for, and returns the status and the body of the answer.
async function work(path, order) {
  switch (path) {
    case '/orders/failing':
      return refusal(402, 'no money');
    case '/orders/broken':
      return refusal(500, 'broken');
    case '/orders/slow':
      await new Promise((resolve) => setTimeout(resolve, 1000));
      break;
  }
  const body = create(order);
  if (path === '/orders/large') {
    body.lines = 'x'.repeat(1 << 20);
  }
  return { status: 201, body };
}

// headers are those of an answer.
const headers = ({ body }) =>
  body.id ? { Location: '/orders/' + body.id, 'X-Request-Id': crypto.randomUUID(), 'Set-Cookie': `seen=${body.id}; Path=/` } : {};

// authenticate puts on an Express application the check of who calls, and the routes that make no orders.
function authenticate(app) {
  app.get('/effects', (req, res) => res.json({ effects: count() }));
  app.use((req, res, next) => (known(req.get('Authorization')) ? next() : res.sendStatus(401)));
  app.get('/orders', (req, res) => res.json({ orders: count() }));
}

// express serves the API on an Express application. guard is called once, after the check of who calls and before the
// routes; once wraps each handler.
function express(app, { guard, once = (handler) => handler }) {
  authenticate(app);
  guard(app);
  const handler = once(async (req, res) => {
    const answer = await work(req.path.replace(/\/+$/, ''), req.body);
    res.set(headers(answer)).status(answer.status).json(answer.body);
  });
  paths.forEach((path) => app.post(path, handler));
  listen(app);
}

const listen = (app) => app.listen(Number(ADDRESS.split(':').pop()), '127.0.0.1');

// jobs serves the API of a service that has an engine do its work: submit gets the key and the job {path, order}, and
// resolves to an answer. A request without a key gets a random one. A caller whose job is not done after five seconds is told
// to come again.
function jobs(submit) {
  listen(
    http.createServer(async (req, res) => {
      const send = ({ status, body }, more) => {
        res.writeHead(status, { 'Content-Type': 'application/json', ...more });
        res.end(JSON.stringify(body));
      };
      if (req.url === '/effects') {
        return send({ status: 200, body: { effects: count() } });
      }
      if (!known(req.headers.authorization)) {
        return send(refusal(401, 'who are you?'));
      }
      const path = req.url.split('?')[0];
      if (req.method === 'GET' && path === '/orders') {
        return send({ status: 200, body: { orders: count() } });
      }
      if (req.method !== 'POST' || !paths.includes(path)) {
        return send(refusal(404, 'there is no such thing'));
      }
      let text = '';
      let order;
      try {
        for await (const chunk of req) {
          text += chunk;
        }
        order = JSON.parse(text);
      } catch {
        return send(refusal(400, 'that is not JSON'));
      }
      try {
        const late = new Promise((resolve) => setTimeout(resolve, 5000, refusal(409, 'in progress')).unref());
        const answer = await Promise.race([submit(req.headers['idempotency-key'] || crypto.randomUUID(), { path, order }), late]);
        send(answer, answer.status === 409 ? { 'Retry-After': '1' } : headers(answer));
      } catch (err) {
        send(refusal(500, String(err)));
      }
    }),
  );
}

module.exports = { store: STORE, dir: DIR, profile: PROFILE, paths, count, known, refusal, create, work, headers, authenticate, express, listen, jobs };
