'use strict'
// Signs bodies as senders do, with their own packages where npm has them: node sign.js SECRET BODY… Prints the headers of
// each scheme as JSON, a line for each body. What Shopify and Slack sign is as their documentation describes it.

const { createHmac } = require('node:crypto')
const octokit = require('@octokit/webhooks-methods')
const { Webhook } = require('standardwebhooks')
const Stripe = require('stripe')

const [secret, ...bodies] = process.argv.slice(2)
const now = new Date()
const seconds = Math.floor(now.getTime() / 1000)
const hmac = (text, encoding) => createHmac('sha256', secret).update(text).digest(encoding)

async function sign (body, id) {
  console.log(JSON.stringify({
    standard_webhooks: {
      'Webhook-Id': id,
      'Webhook-Timestamp': String(seconds),
      'Webhook-Signature': new Webhook(secret).sign(id, now, body)
    },
    stripe: {
      'Stripe-Signature': new Stripe('sk_test_unused').webhooks.generateTestHeaderString({ payload: body, secret })
    },
    github: { 'X-Hub-Signature-256': await octokit.sign(secret, body), 'X-GitHub-Delivery': id },
    shopify: { 'X-Shopify-Hmac-Sha256': hmac(body, 'base64'), 'X-Shopify-Event-Id': id },
    slack: {
      'X-Slack-Request-Timestamp': String(seconds),
      'X-Slack-Signature': 'v0=' + hmac(`v0:${seconds}:${body}`, 'hex')
    }
  }))
}

async function main () {
  for (const [i, body] of bodies.entries()) await sign(body, `msg_${i + 1}`)
}

main()
