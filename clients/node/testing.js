'use strict'
// Two tests of a program that is to do each operation once. They throw an AssertionError, for node:test, jest and others.

const { AssertionError } = require('node:assert')
const { randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')
const { isDeepStrictEqual } = require('node:util')
const { claim, hold, complete } = require('./index.js')

const lock = 5261001 // an advisory lock, which keeps an attempt from completing its key

// Without the operator jest compares two values that the error does not have, and says that they do not differ.
const fail = (message) => { throw new AssertionError({ message, operator: 'fail', stackStartFn: fail }) }
const quoted = (name) => `"${name.replaceAll('"', '""')}"`
const text = (x) => x instanceof Uint8Array ? `'${Buffer.from(x)}'` : JSON.stringify(x)

// checkTwoAtOnce calls call(key) twice at once, and a third time. The second call begins when the first has done its work
// and is about to complete its key, or has ended.
async function checkTwoAtOnce (pool, call, effects, { schema = 'retrysafe' } = {}) {
  const key = randomUUID()
  const before = await effects()
  const answers = []
  const errors = []
  const one = async () => {
    try { answers.push(await call(key)) } catch (e) { errors.push(String(e)) }
  }
  const name = quoted(schema)
  const admin = await pool.connect()
  try {
    await admin.query(`CREATE OR REPLACE FUNCTION ${name}.test_fault() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock_shared(${lock}); RETURN NEW; END $$;
      CREATE TRIGGER retrysafe_fault BEFORE UPDATE ON ${name}.claims FOR EACH ROW WHEN (NEW.state IN (3, 4))
      EXECUTE FUNCTION ${name}.test_fault(); SELECT pg_advisory_lock(${lock})`)
    let ended = false
    const first = one().then(() => { ended = true })
    const waits = () => admin.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = ${lock} AND NOT granted`)
    while (!ended && !(await waits()).rows.length) await sleep(10)
    const second = one()
    await Promise.race([second, sleep(500)]) // one that waits for the first does not end before
    await admin.query(`SELECT pg_advisory_unlock(${lock})`)
    await Promise.all([first, second])
    admin.release()
  } catch (e) {
    admin.release(e)
    throw e
  } finally {
    await pool.query(`DROP TRIGGER IF EXISTS retrysafe_fault ON ${name}.claims; DROP FUNCTION IF EXISTS ${name}.test_fault()`)
  }
  if (!answers.length) fail(`two calls at once: both failed (${errors.join('; ')})`)
  answers.push(await call(key))
  const made = await effects() - before
  if (made !== 1) fail(`two calls at once and a retry: ${made} effects, not 1`)
  if (!answers.every((answer) => isDeepStrictEqual(answer, answers[0]))) {
    fail(`two calls at once and a retry got different answers: ${answers.map(text).join(', ')}`)
  }
}

// checkCompleted completes a key by hand, and finds out whether call() returns that answer and leaves the tables alone.
async function checkCompleted (pool, { answer = { stored: 'by a test' }, ...key }, call, effects) {
  const held = await claim(pool, key)
  if (held.result) fail('the key has been completed before: use a new one in each run')
  const tx = await pool.connect()
  try {
    await tx.query('BEGIN')
    await hold(tx, held.lease, key)
    await complete(tx, held.lease, JSON.stringify(answer), { schema: key.schema })
    await tx.query('COMMIT')
    tx.release()
  } catch (e) {
    tx.release(e)
    throw e
  }
  const before = await effects()
  let got
  try {
    got = await call()
  } catch (e) {
    fail(`a completed key: the call failed (${e})`)
  }
  if (!isDeepStrictEqual(await effects(), before)) fail('a completed key: the work ran again; does the program use this scope and key?')
  if (!isDeepStrictEqual(got, answer)) fail(`a completed key: the call returned ${text(got)}, not the stored answer ${text(answer)}`)
}

module.exports = { checkTwoAtOnce, checkCompleted }
