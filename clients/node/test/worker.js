'use strict'
// A process that takes keys and may be killed at any point: node worker.js MODE FIRST COUNT. It writes a line for each
// answer. MODE apart is the control: the work commits before its key is completed.

const { Pool } = require('pg')
const { once, claim, hold, complete, LeaseLost } = require('retrysafe')
const { url } = require('./kit')

const [mode, first, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const pool = new Pool({ connectionString: url, max: 2 })
pool.on('error', () => {})

// die kills the process in some of the calls: at each point of the work, some workers end.
const die = (chance) => { if (Math.random() < chance) process.kill(process.pid, 'SIGKILL') }
const risk = mode === 'once' ? 0.1 : 0
const insert = (tx, key) => tx.query('INSERT INTO charges (key) VALUES ($1) RETURNING id', [key])

async function apart (o) {
  const held = await claim(pool, { ...o, takeOver: true })
  if (held.result) return
  await insert(pool, o.key)
  die(0.5)
  const tx = await pool.connect()
  try {
    await tx.query('BEGIN')
    await hold(tx, held.lease)
    await complete(tx, held.lease, 'done')
    await tx.query('COMMIT')
  } catch (e) {
    tx.release(e)
    throw e
  }
  tx.release()
}

async function main () {
  const keys = Array.from({ length: count }, (_, i) => (first + i) % count)
  for (const n of keys) {
    const o = { scope: mode, key: `${mode}-${n}`, request: { n }, lease: 0.3, wait: 30 }
    if (mode === 'apart') {
      await apart(o).catch((e) => { if (!(e instanceof LeaseLost)) throw e }) // it was too slow
      continue
    }
    const work = async (tx, op) => {
      die(risk)
      const { rows: [{ id }] } = await insert(tx, o.key)
      die(risk)
      if (mode === 'paused') {
        process.send('inserted')
        process.kill(process.pid, 'SIGSTOP')
      }
      await op.complete({ id })
      die(risk)
    }
    const { body, replayed } = await once(pool, o, work)
    process.send({ key: o.key, body: body.toString(), replayed })
    if (!replayed) die(risk)
  }
  await pool.end()
}

main().then(() => process.disconnect(), (e) => {
  console.error(e)
  process.exitCode = 3
  process.disconnect()
})
