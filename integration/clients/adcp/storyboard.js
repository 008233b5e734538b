'use strict'
// Runs AdCP's storyboard of idempotency: node storyboard.js. It starts an MCP server, made with the SDK's helper, which
// forwards each call of a tool to an API: as POST API/TOOL, with the arguments as the body. It prints the URL of this
// server. For each line "API URL" it runs the storyboard against the MCP server at URL, while calls go to the API, and
// prints which steps passed and what failed in the others, as JSON.

const http = require('node:http')
const { once } = require('node:events')
const readline = require('node:readline')
const { z } = require('zod')
const { createTaskCapableServer } = require('@adcp/sdk')
const { getComplianceStoryboardById, runStoryboard } = require('@adcp/sdk/testing')
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js')

let api

// forward passes on what the API answers as it is: it adds no context and no mark of a replay.
async function forward (tool, args) {
  const response = await fetch(`${api}/${tool}`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(args)
  })
  const text = await response.text()
  return { isError: !response.ok, structuredContent: JSON.parse(text), content: [{ type: 'text', text }] }
}

async function serve (request, response) {
  if (request.method !== 'POST') return response.writeHead(405).end()
  // The step without a key accepts only JSON, which the transport refuses.
  request.headers.accept = 'application/json, text/event-stream'
  request.rawHeaders.push('Accept', request.headers.accept)
  const server = createTaskCapableServer('seller', '1.0.0')
  for (const tool of ['get_adcp_capabilities', 'create_media_buy', 'get_media_buys']) {
    server.registerTool(tool, { inputSchema: z.looseObject({}) }, (args) => forward(tool, args))
  }
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true })
  await server.connect(transport)
  await transport.handleRequest(request, response)
}

// The storyboard of this version has dates of 2026. For dates that have passed the runner takes the present time, so
// that a retry is another request than the first. Later versions of the storyboard have dates of 2099.
function storyboard () {
  const text = JSON.stringify(getComplianceStoryboardById('idempotency'))
  return JSON.parse(text.replaceAll(/"2026(-\d\d-\d\dT)/g, '"2099$1'))
}

// failures returns what failed in a step. A step that is skipped because an earlier one has failed has failed, too.
function failures (step) {
  if (step.skipped) return ['skipped']
  return step.validations.filter((v) => !v.passed).map((v) => v.description).concat(step.error ?? [])
}

async function main () {
  const server = http.createServer(serve).listen(0, '127.0.0.1')
  await once(server, 'listening')
  console.log(`http://127.0.0.1:${server.address().port}/mcp`)
  for await (const line of readline.createInterface(process.stdin)) {
    const [to, url] = line.split(' ')
    api = to
    const { phases } = await runStoryboard(url, storyboard(), { protocol: 'mcp', allow_http: true })
    const steps = phases.flatMap((phase) => phase.steps)
    console.log(JSON.stringify({
      passed: steps.filter((s) => s.passed && !s.skipped).map((s) => s.step_id),
      failed: Object.fromEntries(steps.filter((s) => !s.passed).map((s) => [s.step_id, failures(s)]))
    }))
  }
  process.exit() // connections that are kept do not hold it up
}

main()
