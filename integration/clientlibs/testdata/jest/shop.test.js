'use strict'
// The tests of docs/node.md, for this shop.

const { randomUUID } = require('node:crypto')
const { Mismatch } = require('retrysafe')
const { pool, pay, render } = require('./shop')

beforeAll(() => pool.query('CREATE TABLE charges (amount bigint NOT NULL)'))
afterAll(() => pool.end())

const countCharges = async () => Number((await pool.query('SELECT count(*) AS n FROM charges')).rows[0].n)

const { checkTwoAtOnce, checkCompleted } = require('retrysafe/testing')

test('two at once', () => checkTwoAtOnce(pool, (order) => pay(order, 4200), countCharges))

test('a completed key', () => {
  const key = randomUUID()
  const request = { order: key, amount: 4200 }
  return checkCompleted(pool, { scope: 'payments', key, request }, () => pay(key, 4200), countCharges)
})

// jest runs modules in a context of its own, whose classes are not those of Node.
test('bytes, and the class of an error', async () => {
  await checkTwoAtOnce(pool, (order) => render(order, 4200), countCharges)
  const order = randomUUID()
  expect(Buffer.isBuffer(await render(order, 4200))).toBe(true)
  await pay(order, 4200)
  await expect(pay(order, 1)).rejects.toBeInstanceOf(Mismatch)
})
