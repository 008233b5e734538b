// Runs http-cache-tests, as its own cli.mjs does: "server PORT" is its origin server, on the loopback address only, and
// "client URL" prints the result of each test.
import http from 'node:http'
import path from 'node:path'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [role, where] = process.argv.slice(2)
const folder = path.join(process.env.NODE_PATH, 'http-cache-tests')
const load = file => import(pathToFileURL(path.join(folder, file)).href)
if (role === 'server') {
  Object.assign(process.env, { npm_config_protocol: 'http', npm_config_port: where, npm_config_pidfile: '/dev/null' })
  const listen = http.Server.prototype.listen
  http.Server.prototype.listen = function (port) { return listen.call(this, port, '127.0.0.1') }
  await load('server/server.mjs')
} else {
  const { runTests, getResults } = await load('client/runner.mjs')
  const tests = (await load('tests/index.mjs')).default
  const fetch = createRequire(path.join(folder, 'package.json'))('node-fetch')
  console.log = () => {}
  await runTests(tests, fetch, false, where)
  process.stdout.write(JSON.stringify(getResults()))
}
