'use strict'
// Signs a body as senders do, with their own packages where npm has them: node sign.js SECRET BODY. Prints the headers of
// each scheme as JSON. What Shopify and Slack sign is as their documentation describes it.

const { createHmac } = require('node:crypto')
const octokit = require('@octokit/webhooks-methods')
const { Webhook } = require('standardwebhooks')
const Stripe = require('stripe')

const [secret, body] = process.argv.slice(2)
const now = new Date()
const seconds = Math.floor(now.getTime() / 1000)
const hmac = (text, encoding) => createHmac('sha256', secret).update(text).digest(encoding)

async function main () {
  console.log(JSON.stringify({
    standard_webhooks: {
      'Webhook-Id': 'msg_1',
      'Webhook-Timestamp': String(seconds),
      'Webhook-Signature': new Webhook(secret).sign('msg_1', now, body)
    },
    stripe: {
      'Stripe-Signature': new Stripe('sk_test_unused').webhooks.generateTestHeaderString({ payload: body, secret })
    },
    github: { 'X-Hub-Signature-256': await octokit.sign(secret, body) },
    shopify: { 'X-Shopify-Hmac-Sha256': hmac(body, 'base64') },
    slack: {
      'X-Slack-Request-Timestamp': String(seconds),
      'X-Slack-Signature': 'v0=' + hmac(`v0:${seconds}:${body}`, 'hex')
    }
  }))
}

main()
