#!/usr/bin/env node
'use strict'

// Runs the command retrysafe. The program is in a package of its own for each platform, an optional dependency.
const { spawn } = require('node:child_process')

const name = `@retrysafe/${process.platform}-${process.arch}`
let program
try {
  program = require.resolve(`${name}/bin/retrysafe${process.platform === 'win32' ? '.exe' : ''}`)
} catch {
  console.error(`retrysafe: the package ${name} is not installed. Install without --omit=optional, or see ` +
    'https://github.com/retrysafe/retrysafe/blob/main/docs/installing.md')
  process.exit(1)
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' })
process.on('SIGINT', () => {}) // Ctrl-C reaches the program too, and a second signal would end it at once
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (e) => {
  console.error(`retrysafe: ${program}: ${e.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
