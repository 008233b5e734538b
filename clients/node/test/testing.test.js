'use strict'
const { test, before } = require('node:test')
const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const { Pool } = require('pg')
const { once } = require('retrysafe')
const { checkTwoAtOnce, checkCompleted } = require('retrysafe/testing')
const { url, newKey, newPool, createTable, charge, rejection } = require('./kit')

before(async () => {
  const pool = new Pool({ connectionString: url })
  await createTable(pool)
  await pool.end()
})

// Each mistake is found. Seen to fail with the comparison of effects and that of answers taken out, and with the second
// call after the first.
test('two at once', async (t) => {
  const pool = newPool(t)
  const all = async () => Number((await pool.query('SELECT count(*) AS n FROM charges')).rows[0].n)
  const pay = async (key, options) => (await once(pool, { scope: 'pay', key, ...options }, charge(key))).answer
  for (const wait of [0, 60]) await checkTwoAtOnce(pool, (key) => pay(key, { wait }), all)
  const looksFirst = async (key) => { // and claims too late
    const { rows } = await pool.query('SELECT FROM charges WHERE key = $1', [key])
    if (!rows.length) await once(pool, { scope: 'pay', key: newKey() }, charge(key))
    return 'paid'
  }
  for (const [call, says] of [
    [(key) => pay(newKey()), /3 effects, not 1/],
    [looksFirst, /2 effects, not 1/],
    [async (key) => { await pay(key); return randomUUID() }, /different answers/],
    [() => { throw new Error('no stock') }, /both failed \(Error: no stock; Error/]
  ]) {
    const e = await rejection(checkTwoAtOnce(pool, call, all))
    assert(e instanceof assert.AssertionError && says.test(e.message), `got ${e}`)
  }
})

// Seen to fail with each comparison taken out.
test('a completed key', async (t) => {
  const pool = newPool(t)
  const rows = async () => (await pool.query('SELECT * FROM charges ORDER BY id')).rows
  const pay = async (key, request) => (await once(pool, { scope: 'pay', key, request }, charge(key))).answer
  const o = () => ({ scope: 'pay', key: newKey(), request: 1 })
  const right = o()
  await checkCompleted(pool, right, () => pay(right.key, 1), rows)
  const other = o()
  for (const [options, call, says] of [
    [other, () => pay(newKey(), 1), /the work ran again/],
    [o(), (key) => pay(key, 2), /the call failed \(Mismatch/],
    [{ ...o(), answer: 'paid' }, async (key) => [await pay(key, 1)], /returned \["paid"\], not the stored answer "paid"/],
    [other, () => {}, /completed before/]
  ]) {
    const e = await rejection(checkCompleted(pool, options, () => call(options.key), rows))
    assert(e instanceof assert.AssertionError && says.test(e.message), `got ${e}`)
  }
})
