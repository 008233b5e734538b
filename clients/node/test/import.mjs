// The package in a module of ECMAScript: names, and everything as the default.
import assert from 'node:assert/strict'
import retrysafe, { once, complete, Failed, RetrysafeError } from 'retrysafe'
import { createRequire } from 'node:module'

assert.equal(retrysafe.once, once)
assert.equal(createRequire(import.meta.url)('retrysafe').complete, complete)
assert(new Failed('x') instanceof RetrysafeError)
