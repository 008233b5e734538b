// A service that charges exactly once, with the driver pg or mysql2. If DATABASE is a path, it has neither a database nor
// a key, and writes a line for each charge. It serves one connection, which is its standard input. It tells the test at
// which boundary it is, and waits until the test lets it continue, so that the test can kill it there.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');

const database = process.env.DATABASE;
const file = database.startsWith('/');
const mysql = database.startsWith('mysql:');
const how = process.env.COMPLETE; // which mistake it makes; "inside" is none
const apart = how === 'apart'; // the control: complete in a transaction of its own

// The connection to the test.
class Boundaries {
  constructor(order) {
    const [host, port] = process.env.BOUNDARIES.split(':');
    this.order = order;
    this.socket = net.connect({ host, port });
    this.socket.on('close', () => process.exit(1)); // the test has ended
    this.socket.on('error', () => {});
  }
  reach(boundary) {
    this.socket.write(`${this.order} ${process.pid} ${boundary}\n`);
    return new Promise((go) => this.socket.once('data', go));
  }
}

// Connects. What it returns has the method query of pg.
async function connect() {
  if (mysql) {
    const db = await require('mysql2/promise').createConnection(database);
    return { query: async (text, values) => ({ rows: (await db.query(text.replace(/\$\d/g, '?'), values))[0] }) };
  }
  const db = new (require('pg').Client)({ connectionString: database });
  db.on('error', () => {}); // the query that it breaks reports it, too
  await db.connect();
  return db;
}

// Charges without a key. As "first", it answers before that, as services do that acknowledge webhooks at once.
async function append(order, test, res) {
  if (how === 'first') await respond(res, 202, '{}');
  await test.reach('claimed');
  const ledger = fs.openSync(database, 'a');
  fs.writeSync(ledger, `${order}\n`);
  fs.fsyncSync(ledger);
  await test.reach('committed');
  if (how !== 'first') await respond(res, 201, JSON.stringify({ order }));
}

// Does without the proxy what the proxy does: claims the key, or answers with what the record says.
async function claim(db, order, test, res) {
  await test.reach('unclaimed');
  const { rows: [got] } = await db.query(
    `SELECT verdict, lease, code, convert_from(body, 'UTF8') AS body, (extract(epoch FROM lease_left) * 1000)::integer AS left
     FROM retrysafe.claim('charges', $1, lease_for => $2, take_over => true)`, [order, process.env.LEASE]);
  if (got.verdict === 'done') await respond(res, got.code, got.body);
  else if (got.verdict !== 'acquired') await respond(res, 409, JSON.stringify({ verdict: got.verdict, retry_after_ms: got.left }));
  return got.lease;
}

async function charge(db, lease, order, test) {
  await db.query('BEGIN');
  if (!apart && !mysql) await db.query('SELECT retrysafe.hold($1)', [lease]);
  const { rows: [{ amount }] } = await db.query("SELECT amount FROM prices WHERE article = 'book'");
  await test.reach('begun');
  const { rows: [{ id }] } = await db.query(
    'INSERT INTO charges (order_id, amount) VALUES ($1, $2) RETURNING id', [order, amount]);
  if (apart) {
    await db.query('COMMIT; BEGIN');
    await db.query('SELECT retrysafe.hold($1)', [lease]);
  }
  if (how === 'helper commits') await db.query('COMMIT');
  await test.reach('written');
  const answer = JSON.stringify({ charge: Number(id), order });
  if (!['answers 500', 'forgets complete'].includes(how)) {
    const complete = mysql ? 'CALL retrysafe_complete($1, $2, 201, NULL)' : 'SELECT retrysafe.complete($1, $2, 201)';
    await db.query(complete, [lease, answer]);
  }
  await test.reach('completed');
  await db.query('COMMIT');
  return answer;
}

function respond(res, code, body) {
  if (res.destroyed) return null; // the client has gone
  res.writeHead(code, { 'Content-Type': 'application/json', 'Content-Length': body.length, Connection: 'close' });
  return new Promise((sent) => res.on('close', sent).end(body, sent));
}

const server = http.createServer(async (req, res) => {
  let text = '';
  for await (const part of req) text += part;
  const { order } = JSON.parse(text);
  const test = new Boundaries(order);
  try {
    if (file) {
      await append(order, test, res);
      await test.reach('responded');
      process.exit(0);
    }
    const db = await connect();
    const lease = req.headers['retrysafe-lease'] ?? await claim(db, order, test, res);
    if (lease) {
      await test.reach('claimed');
      const answer = await charge(db, lease, order, test);
      await test.reach('committed');
      await respond(res, how === 'answers 500' ? 500 : 201, answer);
    }
  } catch (error) {
    await respond(res, 500, JSON.stringify({ error: error.message }));
  }
  await test.reach('responded');
  process.exit(0);
});
server.emit('connection', new net.Socket({ fd: 0 }));
