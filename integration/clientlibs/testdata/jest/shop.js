'use strict'
// A shop that charges an order once.

const { Pool } = require('pg')
const { once } = require('retrysafe')

const pool = new Pool({ connectionString: process.env.DATABASE_URL })

// pay charges an order, and returns the receipt.
async function pay (order, amount) {
  const { answer } = await once(pool, { scope: 'payments', key: order, request: { order, amount } }, async (tx) => {
    await tx.query('INSERT INTO charges (amount) VALUES ($1)', [amount])
    return { order, amount }
  })
  return answer
}

// render does the same, and returns a receipt in bytes.
async function render (order, amount) {
  const { answer } = await once(pool, { scope: 'receipts', key: order }, async (tx) => {
    await tx.query('INSERT INTO charges (amount) VALUES ($1)', [amount])
    return Buffer.from(`charged ${amount}`)
  })
  return answer
}

module.exports = { pool, pay, render }
