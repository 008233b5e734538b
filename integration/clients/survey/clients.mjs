// Sends with clients for Node: node clients.mjs URL SITUATION...
import axios from 'axios'
import axiosRetry, { isNetworkError, isRetryableError } from 'axios-retry'
import got from 'got'
import ky from 'ky'
import Stripe from 'stripe'
import { Agent, RetryAgent, request } from 'undici'

const [url, ...situations] = process.argv.slice(2)
const charges = url + '/v1/charges'
const body = { amount: 1700 }
const statusCodes = [408, 409, 425, 429, 500, 502, 503, 504]

function axiosWith(options) {
	const client = axios.create()
	if (options) axiosRetry(client, options)
	return headers => client.post(charges, body, { headers })
}

function undiciWith(options) {
	const dispatcher = new RetryAgent(new Agent(), options)
	return async headers => {
		const response = await request(charges, {
			method: 'POST', dispatcher, body: JSON.stringify(body), headers: { ...headers, 'Content-Type': 'application/json' },
		})
		await response.body.text()
	}
}

const stripe = new Stripe('sk_test_survey', { host: '127.0.0.1', port: new URL(url).port, protocol: 'http', telemetry: false })

const clients = {
	'stripe-node': headers => stripe.charges.create({ amount: 1700, currency: 'eur' }, { idempotencyKey: headers['Idempotency-Key'] }),
	'fetch': async headers => (await fetch(charges, { method: 'POST', body: JSON.stringify(body), headers })).text(),
	'axios': axiosWith(),
	'axios-retry': axiosWith({}),
	'axios-retry-set': axiosWith({
		retryDelay: axiosRetry.exponentialDelay,
		retryCondition: e => isNetworkError(e) || isRetryableError(e) || [409, 429].includes(e.response?.status),
	}),
	'got': headers => got.post(charges, { json: body, headers }),
	'got-set': headers => got.post(charges, { json: body, headers, retry: { methods: ['POST'], statusCodes } }),
	'ky': headers => ky.post(charges, { json: body, headers }),
	'ky-set': headers => ky.post(charges, { json: body, headers, retry: { methods: ['post'], statusCodes, afterStatusCodes: [409, 429, 503] } }),
	'undici': undiciWith({}),
	'undici-set': undiciWith({ methods: ['POST'], statusCodes }),
}

const sent = []
for (const [setup, send] of Object.entries(clients)) {
	for (const situation of situations) {
		sent.push(send({ 'Idempotency-Key': `${setup}|${situation}` }))
	}
}
await Promise.allSettled(sent) // what they did is seen by the server
process.exit(0)
