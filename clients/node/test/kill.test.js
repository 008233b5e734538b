'use strict'
const { test, before } = require('node:test')
const assert = require('node:assert/strict')
const { fork } = require('node:child_process')
const { once: event } = require('node:events')
const { join } = require('node:path')
const { Pool } = require('pg')
const { once } = require('retrysafe')
const { url, newPool, createTable, charges } = require('./kit')

before(async () => {
  const pool = new Pool({ connectionString: url })
  await createTable(pool)
  await pool.end()
})

const start = (mode, first, count) => fork(join(__dirname, 'worker.js'), [mode, first, count])

// run starts workers, each again whenever it was killed, until so many were killed and every worker has seen all keys.
// It also kills some from outside.
async function run (t, mode, count, kills) {
  const pool = newPool(t)
  const answers = new Map()
  let killed = 0
  await Promise.all([0, 1, 2, 3].map(async (first) => {
    for (;;) {
      const worker = start(mode, first * 5 % count, count)
      worker.on('message', ({ key, body }) => {
        assert.equal(answers.get(key) ?? body, body, 'another answer')
        answers.set(key, body)
      })
      const timer = killed < kills && setTimeout(() => worker.kill('SIGKILL'), 100 + Math.random() * 900)
      const [code, signal] = await event(worker, 'exit')
      clearTimeout(timer)
      if (signal === 'SIGKILL') killed++
      else assert.equal(code, 0)
      if (code === 0 && killed >= kills) return
    }
  }))
  t.diagnostic(`${count} keys, ${killed} processes killed`)
  return { pool, answers }
}

const kills = Number(process.env.RETRYSAFE_TEST_KILLS)

// Seen to fail with op.complete after COMMIT, in a transaction of its own: keys are charged twice.
test('workers that are killed charge each key once', async (t) => {
  const count = 20 + kills / 2
  const { pool, answers } = await run(t, 'once', count, kills)
  const { rows } = await pool.query("SELECT key, count(*)::int AS n, min(id) AS id FROM charges WHERE key LIKE 'once-%' GROUP BY key")
  assert.equal(rows.length, count)
  for (const { key, n, id } of rows) {
    assert.equal(n, 1, `${key} was charged ${n} times`)
    assert.equal(answers.get(key) ?? `{"id":${id}}`, `{"id":${id}}`)
    const stored = await once(pool, { scope: 'once', key, request: { n: Number(key.slice(5)) } }, () => assert.fail('no answer'))
    assert.equal(stored.body.toString(), `{"id":${id}}`)
  }
})

// The control: the same workers, with the completion in a transaction of its own.
test('without the common transaction keys are charged twice', async (t) => {
  const { pool } = await run(t, 'apart', 12, 1)
  const { rows: [{ n }] } = await pool.query("SELECT count(*) - count(DISTINCT key) AS n FROM charges WHERE key LIKE 'apart-%'")
  assert(Number(n) > 0, 'no key was charged twice')
})

// A worker stands still in its work until another has taken its key over and completed it. When it goes on, its work is
// rolled back and it gets the other's answer.
test('a process that was paused for longer than its lease', async (t) => {
  const pool = newPool(t)
  const worker = start('paused', 0, 1)
  const exit = event(worker, 'exit')
  await event(worker, 'message') // inserted
  const { answer, attempt } = await once(pool, { scope: 'paused', key: 'paused-0', request: { n: 0 }, wait: 30 }, async (tx) => {
    const { rows: [{ id }] } = await tx.query("INSERT INTO charges (key) VALUES ('paused-0') RETURNING id")
    return { id }
  })
  assert.equal(attempt, 2)
  worker.kill('SIGCONT')
  const [message] = await event(worker, 'message')
  assert.deepEqual(message, { key: 'paused-0', body: JSON.stringify(answer), replayed: true })
  assert.deepEqual(await exit, [0, null])
  assert.equal(await charges(pool, 'paused-0'), 1)
})
