// The payments service of `retrysafe demo`: a plain handler and PostgreSQL.

const http = require("node:http");
const { Pool } = require("pg");

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
// Without these listeners, a connection that breaks ends the process: one that is idle, and one that is in use.
pool.on("error", (error) => console.error(error.message));
pool.on("connect", (client) => client.on("error", (error) => console.error(error.message)));
const INSERT = `INSERT INTO shop.charges (customer, order_id, amount)
                VALUES ($1, $2, $3) RETURNING id`;

async function charge({ customer, order, amount }, lease) {
  const body = await transaction(async (tx) => {
    // COMMIT fails unless complete was called.
    await tx.query("SELECT retrysafe.hold($1)", [lease]);
    const { rows } = await tx.query(INSERT, [customer, order, amount]);
    const body = JSON.stringify({ ...rows[0], customer, order, amount });
    await reach("INSERT");
    await tx.query("SELECT retrysafe.complete($1, $2, 201)", [lease, body]);
    return body;
  });
  await reach("COMMIT");
  return body;
}

async function chargeInTwoTransactions({ customer, order, amount }, lease) {
  const body = await transaction(async (tx) => {
    const { rows } = await tx.query(INSERT, [customer, order, amount]);
    return JSON.stringify({ ...rows[0], customer, order, amount });
  });
  await reach("COMMIT");
  await transaction(async (tx) => {
    await tx.query("SELECT retrysafe.hold($1)", [lease]);
    await tx.query("SELECT retrysafe.complete($1, $2, 201)", [lease, body]);
  });
  return body;
}

async function transaction(work) {
  const tx = await pool.connect();
  try {
    await tx.query("BEGIN");
    const result = await work(tx);
    await tx.query("COMMIT");
    return result;
  } catch (error) {
    await tx.query("ROLLBACK");
    throw error;
  } finally {
    tx.release();
  }
}

// Stands still at the place that the demo has chosen, to be killed there.
async function reach(place) {
  if (place === process.env.STOP_AFTER) {
    console.log(place);
    await new Promise(() => {});
  }
}

const routes = { "/charges": charge, "/careless/charges": chargeInTwoTransactions };

async function handle(request, response) {
  if (request.method === "GET") return response.end("the service is up\n");
  const order = JSON.parse(Buffer.concat(await request.toArray()).toString());
  order.customer = request.headers.authorization.replace("Bearer ", "");
  const body = await routes[request.url](order, request.headers["retrysafe-lease"]);
  response.writeHead(201, { "Content-Type": "application/json" }).end(body);
}

process.stdin.on("end", () => process.exit()).resume(); // ends when the demo does, even if it is killed
const server = http.createServer((request, response) =>
  handle(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end("the charge failed\n");
  }));
server.listen(Number(process.env.PORT), "127.0.0.1", () => console.log("ready"));
