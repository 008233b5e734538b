'use strict'
// What the tests share. They run in a folder in which npm has installed the package and pg: see integration/clientlibs.

const net = require('node:net')
const { once: event } = require('node:events')
const { Pool } = require('pg')

const url = process.env.RETRYSAFE_TEST_DATABASE
const bouncer = process.env.RETRYSAFE_TEST_BOUNCER

let keys = 0
const newKey = () => `key-${process.pid}-${keys++}`

// newPool returns a pool that ends with the test.
function newPool (t, options = {}) {
  const pool = new Pool({ connectionString: url, ...options })
  pool.on('error', () => {}) // of idle connections
  t.after(() => pool.end())
  return pool
}

const createTable = (pool) => pool.query('CREATE TABLE IF NOT EXISTS charges (id serial PRIMARY KEY, key text NOT NULL)')

// charge returns work that makes one charge, and counts how often it runs.
function charge (key, more = () => {}) {
  const work = async (tx, op) => {
    work.runs++
    const { rows: [row] } = await tx.query('INSERT INTO charges (key) VALUES ($1) RETURNING id', [key])
    await more(tx, op)
    return { id: row.id, key }
  }
  work.runs = 0
  return work
}

const charges = async (pool, key) =>
  Number((await pool.query('SELECT count(*) AS n FROM charges WHERE key = $1', [key])).rows[0].n)

// startWire starts a server that passes bytes on to the database. onCommit is called when a client sends COMMIT, with the
// two sockets and a function that passes COMMIT on.
async function startWire (t, onCommit) {
  const to = new URL(url)
  const sockets = new Set()
  const server = net.createServer((client) => {
    const database = net.connect(Number(to.port), to.hostname)
    for (const [a, b] of [[client, database], [database, client]]) {
      sockets.add(a)
      a.on('error', () => b.destroy())
      a.on('close', () => b.destroy())
    }
    client.on('data', (data) => {
      if (data.includes('COMMIT\0')) onCommit({ client, database, pass: () => database.write(data) })
      else database.write(data)
    })
    database.on('data', (data) => client.writable && client.write(data))
  })
  server.listen(0, '127.0.0.1')
  await event(server, 'listening')
  t.after(() => {
    for (const s of sockets) s.destroy()
    server.close()
  })
  const through = new URL(url)
  through.host = `127.0.0.1:${server.address().port}`
  return { url: through.href, server }
}

// rejection returns the error of a promise that must be rejected.
async function rejection (promise) {
  try {
    await promise
  } catch (e) {
    return e
  }
  throw new Error('no error was thrown')
}

module.exports = { url, bouncer, newKey, newPool, createTable, charge, charges, startWire, rejection }
