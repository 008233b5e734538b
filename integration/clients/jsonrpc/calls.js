'use strict'
// Calls a JSON-RPC service with clients from npm: node calls.js CLIENT URL CALLS. Each call is tried until it is answered,
// with one idempotency key and another id on each try. Prints what went wrong, as JSON.

const { randomUUID } = require('node:crypto')
const { JSONRPCClient } = require('json-rpc-2.0')
const jayson = require('jayson')

const [name, url, calls] = process.argv.slice(2)
const wrong = [] // answers with another id than their request's

function check (id, answer) {
  if (answer.id === id) return
  wrong.push(`${id} was answered under ${answer.id}`)
  throw new Error('another id')
}

const clients = {
  // The key is in the header. An answer under another id is of no call: the promise of this one would never be settled.
  'json-rpc-2.0': async (order, key) => {
    const client = new JSONRPCClient(async (request) => {
      const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': `"${key}"` }
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(request) })
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
      const answer = await response.json()
      client.receive(answer)
      check(request.id, answer)
    }, randomUUID)
    return client.request('charge', { order })
  },
  // The key is a member of the body. This client does not look at the id, and waits for ever if an answer breaks off.
  jayson: (order, key) => new Promise((resolve, reject) => {
    const client = jayson.Client.http(url)
    client.on('http response', (response) => response.on('close', () => response.complete || reject(new Error('half an answer'))))
    const id = randomUUID()
    client.request('charge', { order, key }, id, (err, answer) => {
      try {
        if (err) throw err
        check(id, answer)
        resolve(answer.result)
      } catch (e) {
        reject(e)
      }
    })
  })
}

async function call (order) {
  const key = `key-of-${order}`
  for (let tries = 1; ; tries++) {
    try {
      const result = await clients[name](order, key)
      return result.order === order ? { tries } : { tries, failed: `the answer is of ${result.order}` }
    } catch (e) {
      if (tries === 100 || e.message === 'another id') return { tries, failed: `${e.message} ${e.cause ?? ''}` }
    }
  }
}

async function main () {
  const all = []
  const worker = async () => { while (all.length < calls) all.push(call(`order-${all.length}`)) && await all.at(-1) }
  await Promise.all(Array.from({ length: 16 }, worker))
  const ended = await Promise.all(all)
  const failed = ended.map((c) => c.failed).filter(Boolean)
  console.log(JSON.stringify({ wrong, failed, tries: ended.reduce((sum, c) => sum + c.tries, 0) }))
  process.exit() // connections that are kept do not hold it up
}

main()
