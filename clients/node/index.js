'use strict'
// Runs an operation exactly once, in the PostgreSQL database that your tables are in. README.md shows how to use it.
//
// A key is claimed in a transaction of its own. Then the work and its answer commit together in one transaction, so that
// after a crash both are there or neither is. The functions of the schema retrysafe decide everything; this file calls
// them in the right order and turns their SQLSTATEs into classes.

const { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes, randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')

class RetrysafeError extends Error {
  constructor (message, fields) {
    super(message)
    Object.defineProperty(this, 'name', { value: this.constructor.name, writable: true, configurable: true })
    Object.assign(this, fields)
  }
}
class InFlight extends RetrysafeError {}
class Mismatch extends RetrysafeError {}
class Abandoned extends RetrysafeError {}
// Thrown in the work, it says that nothing happened, neither in the transaction nor elsewhere.
class Retryable extends RetrysafeError {}
// Thrown in the work, it says that it is not known what happened.
class Unknown extends RetrysafeError {}
class OutcomeUnknown extends Unknown {}
class AnswerGone extends RetrysafeError {}
class Misuse extends RetrysafeError {}
class LeaseLost extends RetrysafeError {}
class InvalidLease extends RetrysafeError {}
class NoSuchClaim extends RetrysafeError {}
class AnswerConflict extends RetrysafeError {}
class NoTransaction extends RetrysafeError {}
class InvalidArgument extends RetrysafeError {}
class Unreadable extends RetrysafeError {}

// A final failure. Thrown in the work, it rolls the work back and is stored; every later call throws it again.
class Failed extends RetrysafeError {
  constructor (answer, { code = 422, contentType, headers } = {}) {
    super(`the operation has failed for good, with the code ${code}`)
    const [body, type] = encode(answer)
    this.result = outcome(body, { code, contentType: contentType ?? type, headers, failed: true })
  }
}

const errors = {
  RS001: LeaseLost, RS002: InvalidLease, RS003: NoSuchClaim, RS004: AnswerConflict, RS005: NoTransaction, RS006: InvalidArgument,
  RS008: NoTransaction, '25P02': Misuse
}
const remedies = {
  '25P02': 'an earlier statement of the transaction has failed and its error was caught: nothing can be committed',
  '3F000': 'create the schema: retrysafe migrate up',
  42883: 'create or update the schema: retrysafe migrate up',
  42501: 'grant the functions to this role: retrysafe migrate print --service-role NAME'
}

const endedItself = 'the work has ended its transaction itself: leave COMMIT and ROLLBACK to once'

// Claim is a key that was claimed. Its lease is a secret: whoever has it can complete the key. It is on the prototype, so
// that console.log and JSON.stringify do not show it.
class Claim {
  #lease
  constructor (lease, attempt, result) {
    this.#lease = lease
    this.attempt = attempt
    this.result = result
  }

  get lease () { return this.#lease }
}

// Operation is what the work of once does with its key.
class Operation extends Claim {
  #o; #tx; #heldBy
  constructor (o, held, tx) {
    super(held.lease, held.attempt)
    this.#o = o
    this.#tx = tx
  }

  // begin begins the transaction that must end the attempt.
  async begin () {
    await this.#open().query(this.#o.begin)
    this.#heldBy = (await call(this.#tx, this.#o.schema, ['hold'], { lease: this.lease })).xid
  }

  async complete (body, options) { await this.#end('complete', body, { code: 200, ...options }) }
  async fail (body, options) { await this.#end('fail', body, { code: 422, ...options }) }

  // isHeld reports whether the open transaction is the one that has ended the attempt.
  async isHeld () {
    const { rows } = await this.#open().query('SELECT pg_current_xact_id_if_assigned()::text AS xid')
      .catch((e) => { throw e.code === '25P02' ? new Misuse(remedies[e.code], { code: e.code }) : e })
    return rows[0].xid === this.#heldBy
  }

  async #end (verb, body, options) {
    const { stored, xid } = await end(this.#open(), this.lease, verb, body, { ...options, schema: this.#o.schema, encryption: this.#o.encryption })
    if (xid !== this.#heldBy) throw new Misuse(endedItself)
    this.result = outcome(stored, { ...options, failed: verb === 'fail', attempt: this.attempt })
  }

  async step (name, work) {
    const tx = this.#open()
    this.#refuseIfEnded('step')
    if (await hasWritten(tx, this.#o)) throw new Misuse('a step is a transaction of its own: call op.step before the work writes')
    const row = await call(tx, this.#o.schema, ['step', 'child_key'], { lease: this.lease, name })
    if (row.step) return JSON.parse(openStep(this.#o.encryption, this.lease, name, row.step))
    await tx.query('ROLLBACK') // the transaction of the step commits, and need not complete the key
    this.#heldBy = undefined
    await tx.query(this.#o.begin)
    let result
    try {
      result = JSON.stringify(await work(withSecret(row.child_key, this.#o.childSecret))) ?? 'null'
      await saveStep(tx, this.lease, name, result, this.#o)
      await commit(tx)
    } catch (e) {
      await tx.query('ROLLBACK').then(() => this.begin()).catch(() => {})
      throw e
    }
    await this.begin()
    return JSON.parse(result)
  }

  async childKey (name) { return childKey(this.#open(), this.lease, name, this.#o) }
  async extend (seconds) {
    const tx = this.#open()
    this.#refuseIfEnded('extend') // the record is locked until COMMIT: another client would wait for this one
    if (await hasWritten(tx, this.#o)) return beside(this.#o.pool, (client) => extend(client, this.lease, seconds, this.#o))
    await tx.query('ROLLBACK') // an extension counts from its COMMIT
    await extend(tx, this.lease, seconds, this.#o)
    await (this.#heldBy ? this.begin() : tx.query(this.#o.begin)) // in a step without the hold
  }

  close () { this.#tx = undefined }

  #refuseIfEnded (verb) {
    if (this.result) throw new Misuse(`the work has ended the operation: call op.${verb} before op.complete or op.fail`)
  }

  #open () {
    if (!this.#tx) throw new Misuse('the operation has ended: await everything that the work does before it returns')
    return this.#tx
  }
}

// once runs work(tx, op) in one transaction with the completion of its key, or returns the answer that is stored.
async function once (pool, options, work) {
  if (typeof work !== 'function') throw new InvalidArgument('once needs the work: a function of (tx, op)')
  const o = settings(pool, { takeOver: true, ...options })
  let began = false
  const begin = (tx, op) => { began = true; return work(tx, op) }
  for (let left = o.tries; ; left--) {
    const held = await take(o) // the same owner gets the same lease again
    if (held.result) return final(held.result)
    let result
    try {
      result = await attempt(o, held, begin)
    } catch (e) {
      if (e instanceof LeaseLost) tell(o, 'lost')
      const sent = e instanceof Unanswered
      const now = sent && await whatBecame(o, e.cause)
      if (now.result) {
        result = { ...now.result, replayed: now.attempt !== held.attempt }
      } else if (left > 1 && o.takeOver && !(e instanceof Unknown) && (sent || e instanceof LeaseLost || isConflict(e))) {
        await sleep(Math.random() * 50)
        continue
      } else {
        // Without takeOver, what the work has done outside of the transaction may have happened: the key stays taken.
        // The lease runs out in any case: ending it must not hide the error, nor wait for a server that is gone.
        const keep = e instanceof Unknown || (began && !o.takeOver && !(e instanceof Retryable))
        const ended = keep ? extend(pool, held.lease, 0, o) : release(pool, held.lease, o)
        await Promise.race([ended.catch(() => {}), sleep(5000, undefined, { ref: false })])
        throw sent ? e.cause : e
      }
    }
    return final(result)
  }
}

// claim claims a key in a transaction of its own, for work in a transaction that another library begins.
async function claim (pool, options) { return take(settings(pool, options)) }

class Unanswered extends Error {} // COMMIT was sent, and no answer came

async function attempt (o, held, work) {
  const tx = await o.pool.connect()
  const op = new Operation(o, held, tx)
  let broken
  let committing = false
  const note = (e) => { broken = e } // without a listener, a connection that breaks between two queries ends the process
  tx.on('error', note)
  try {
    await op.begin()
    try {
      const [body, contentType] = encode(await work(tx, op))
      if (!op.result) await op.complete(body, { contentType })
      else if (!await op.isHeld()) throw new Misuse(endedItself) // a ROLLBACK after op.complete, and then another statement
    } catch (e) {
      if (!(e instanceof Failed)) throw e
      await tx.query('ROLLBACK')
      await op.begin()
      await op.fail(e.result.body, e.result)
    }
    committing = true
    await commit(tx)
    return op.result
  } catch (e) {
    if (committing && !(e instanceof Misuse) && !isRefusal(e)) {
      note(e)
      throw new Unanswered('', { cause: e })
    }
    await tx.query('ROLLBACK').catch(note)
    throw e
  } finally {
    op.close()
    tx.off('error', note)
    tx.release(broken)
  }
}

// hasWritten reports whether a transaction has written anything but the hold. What it writes to, it has locked.
async function hasWritten (tx, { schema = 'retrysafe' }) {
  const { rows } = await tx.query('SELECT FROM pg_locks JOIN pg_class ON pg_class.oid = relation AND relnamespace <> ' +
    "to_regnamespace($1) WHERE locktype = 'relation' AND pid = pg_backend_pid() AND mode <> 'AccessShareLock' LIMIT 1", [quoted(schema)])
  return rows.length > 0
}

// beside calls f with a client that is not the one of the work: of the pool, or, if that has none to spare, one of its own.
// All clients of the pool may be held by work that would wait here for each other.
async function beside (pool, f) {
  if (!pool.waitingCount && (pool.idleCount || pool.totalCount < pool.options.max)) return f(pool)
  const client = new pool.Client(pool.options)
  client.on('error', () => {}) // the query reports it
  try {
    await client.connect()
    return await f(client)
  } finally {
    client.end().catch(() => {})
  }
}

// commit commits. PostgreSQL answers COMMIT with ROLLBACK, and no error, if a statement has failed before.
async function commit (tx) {
  const { command } = await tx.query('COMMIT')
  if (command !== 'COMMIT') throw new Misuse(remedies['25P02'])
}

// whatBecame asks the record what became of a COMMIT. As long as the server has not ended that transaction, claim finds
// the row locked, and says in flight without an attempt.
async function whatBecame (o, cause) {
  for (const until = performance.now() + 15000; performance.now() < until; await sleep(100 + Math.random() * 200)) {
    const row = await claimRow({ ...o, takeOver: false }).catch(() => {})
    if (row && (row.verdict !== 'in_flight' || row.attempt)) return asClaim(row, o)
  }
  throw new OutcomeUnknown('the answer to COMMIT was lost, and the record cannot be asked: call again with the same key', { cause })
}

async function take (o) {
  const until = performance.now() + o.wait * 1000
  for (let pause = 25, tries = o.tries; ;) {
    let row
    try {
      row = await claimRow(o)
    } catch (e) {
      if (--tries < 1 || !(isConflict(e) || isLost(e))) throw e
      continue
    }
    const left = until - performance.now()
    if (row.verdict !== 'in_flight' || left <= 0) tell(o, { acquired: 'claimed', done: 'replayed' }[row.verdict] ?? row.verdict)
    switch (row.verdict) {
      case 'acquired': case 'done': return asClaim(row, o)
      case 'mismatch': throw new Mismatch('the key was first used for another request: use a new key for a new operation')
      case 'abandoned': throw new Abandoned('an earlier attempt began and did not end: find out what it has done, or set takeOver')
    }
    const retryAfter = Math.max(1, Math.ceil(Number(row.left)))
    if (left <= 0) throw new InFlight(`another attempt at this operation is running: try again in ${retryAfter} s`, { retryAfter })
    await sleep(Math.min(left, pause *= 1 + Math.random()))
    pause = Math.min(pause, 500)
  }
}

const claimRow = (o) => call(o.pool, o.schema, ['claim'], o.claim(o), 'verdict, lease, attempt, code, content_type, headers, ' +
  'body, failed, meta, extract(epoch FROM lease_left)::text AS left')

function asClaim (row, o) {
  const { lease, attempt, code, failed } = row
  let { body, content_type: contentType, headers } = row
  if (row.verdict === 'done' && body && (o.encryption || isSealed(body) || isSealed(row.meta))) {
    ({ body, contentType, headers } = needed(o.encryption).openAnswer(o.digest, failed, code, row.meta ?? Buffer.alloc(0), body))
  }
  const result = row.verdict === 'done' ? outcome(body, { code, contentType, headers, failed, attempt, replayed: true }) : undefined
  return new Claim(lease ?? undefined, attempt, result)
}

function outcome (body, { code, contentType, headers, failed = false, replayed = false, attempt }) {
  const type = contentType ?? 'application/json'
  return { answer: body && decode(body, type), replayed, failed, attempt, code, contentType: type, headers: fields(headers), body }
}

// final returns a result, or throws what says that there is none.
function final (result) {
  if (result.failed) throw Object.assign(new Failed(null, result), { result })
  if (!result.body) throw new AnswerGone('the operation has completed, and its answer is not kept any more', { result })
  return result
}

async function hold (client, lease, { schema } = {}) {
  inTransaction(client, 'hold')
  await call(client, schema, ['hold'], { lease })
}
async function complete (client, lease, body, options) { return (await end(client, lease, 'complete', body, options)).stored }
async function fail (client, lease, body, options) { return (await end(client, lease, 'fail', body, options)).stored }

async function end (client, lease, verb, body, { code, contentType, headers, keep, schema, encryption } = {}) {
  inTransaction(client, verb)
  const stored = bytes(body)
  const lines = Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`)
  let sent = { body: stored, code, content_type: contentType, headers: lines }
  if (encryption && encryption.plaintext !== 'write') { // content type and headers are in what is encrypted
    code ??= verb === 'fail' ? 422 : 200
    const sealed = encryption.sealAnswer(leaseDigest(lease), verb === 'fail', code, contentType ?? 'application/json', lines, stored)
    sent = { body: sealed, code, content_type: '', headers: [] }
  }
  const { xid } = await call(client, schema, [verb], { lease, ...sent, keep })
  return { stored, xid }
}

async function saveStep (client, lease, name, data, { schema, encryption } = {}) {
  inTransaction(client, 'saveStep')
  let content = bytes(data)
  if (encryption && content.length) content = encryption.seal(leaseDigest(lease), `s${name}`, content)
  await call(client, schema, ['save_step'], { lease, name, data: content })
}
const step = async (client, lease, name, { schema, encryption } = {}) => {
  const { step: saved } = await call(client, schema, ['step'], { lease, name })
  return saved && openStep(encryption, lease, name, saved)
}
const openStep = (encryption, lease, name, saved) =>
  encryption || isSealed(saved) ? needed(encryption).unseal(leaseDigest(lease), `s${name}`, saved) : saved
const childKey = async (client, lease, name, { schema, childSecret } = {}) =>
  withSecret((await call(client, schema, ['child_key'], { lease, name })).child_key, secretBytes(childSecret))
const extend = async (client, lease, seconds, { schema } = {}) => { await call(client, schema, ['extend'], { lease, lease_for: seconds }) }
const release = async (client, lease, { schema } = {}) => { await call(client, schema, ['release'], { lease }) }

function inTransaction (client, verb) {
  if (isPool(client) || client?.getTransactionStatus?.() === 'I') {
    throw new NoTransaction(`${verb} needs the client of a transaction: take a client of the pool and BEGIN first`, { code: 'RS005' })
  }
}

const types = {
  scope: 'bytea', id: 'bytea', fingerprint: 'bytea', take_over: 'boolean', owner: 'uuid', lease: 'text', name: 'text', data: 'bytea',
  body: 'bytea', code: 'integer', content_type: 'text', headers: 'text[]', lease_for: 'float8', keep: 'float8', tags: 'jsonb'
}

const defaults = ['code', 'content_type', 'keep', 'tags'] // of arguments that may be left out

// call calls functions of the schema with the same arguments, in one statement. It has no name, because PgBouncer changes
// the server's connections, on which statements are prepared.
async function call (client, schema = 'retrysafe', functions, given, columns) {
  const names = Object.keys(given).filter((name) => given[name] !== undefined || !defaults.includes(name))
  const values = names.map((name, i) => `${name} => ` +
    (types[name] === 'float8' ? `make_interval(secs => $${i + 1}::float8)` : `$${i + 1}::${types[name]}`))
  const calls = functions.map((f) => `${quoted(schema)}.${f}(${values})`)
  const text = columns ? `SELECT ${columns} FROM ${calls}` : `SELECT ${calls}, pg_current_xact_id_if_assigned()::text AS xid`
  try {
    const { rows } = await client.query(text, names.map((name) => given[name]))
    return rows[0]
  } catch (e) {
    if (!e.severity) throw e // not of the server
    const message = [e.message, remedies[e.code] ?? e.hint].filter(Boolean).join('. ')
    throw new (errors[e.code] ?? RetrysafeError)(message, { code: e.code, severity: e.severity }) // e.where may have the lease
  }
}

const quoted = (schema) => `"${schema.replaceAll('"', '""')}"`
const isPool = (x) => typeof x?.totalCount === 'number'
const tell = (o, event) => { try { o.observe?.(event) } catch {} }
const isConflict = (e) => [e, e?.cause, e?.original].some((x) => x?.code === '40001' || x?.code === '40P01')
const isLost = (e) => /^(08|57P0|ECONNRESET$|EPIPE$)/.test(e.code) || /^Connection terminated( unexpectedly)?$/.test(e.message)
// isRefusal reports whether the server has refused a COMMIT. Of a server or a pooler that is going away, nothing is known.
const isRefusal = (e) => e.severity === 'ERROR' && !/^(08|57|58|XX)/.test(e.code)

const isolations = ['read committed', 'repeatable read', 'serializable']

function settings (pool, { scope, key, request, lease = 30, keep = 86400, takeOver = false, wait = 0, tries = 10, isolation, schema, childSecret, tags, encryption, observe }) {
  const refuse = (message) => { throw new InvalidArgument(message) }
  if (!isPool(pool)) refuse('the first argument must be a Pool of pg: the key is claimed on a connection of its own')
  if (![scope, key].every((x) => typeof x === 'string' || x instanceof Uint8Array)) refuse('scope and key must be strings or Buffers')
  if (![lease, keep, wait].every((x) => x >= 0 && Number.isFinite(x))) refuse('lease, keep and wait must be numbers of seconds')
  if (!(tries >= 1)) refuse('tries must be 1 or more')
  if (isolation !== undefined && !isolations.includes(isolation)) refuse(`isolation must be one of: ${isolations.join(', ')}`)
  if (encryption !== undefined && !(encryption instanceof Encryption)) refuse('encryption must be a new Encryption(keyset)')
  if (observe !== undefined && typeof observe !== 'function') refuse('observe must be a function')
  if (tags !== undefined && (typeof tags !== 'object' || tags === null)) refuse('tags must be an object of strings')
  const given = { scope: bytes(scope), id: bytes(key), fingerprint: fingerprint(request), lease_for: lease, keep, owner: randomUUID(), tags: tags && JSON.stringify(tags) }
  return {
    pool, schema, wait, tries, takeOver, encryption, observe, digest: digest(given.scope, given.id), childSecret: secretBytes(childSecret), claim: ({ takeOver }) => ({ ...given, take_over: takeOver }),
    begin: 'BEGIN' + (isolation ? ' ISOLATION LEVEL ' + isolation.toUpperCase() : '')
  }
}

// secretBytes returns a secret for child keys as bytes; undefined if there is none.
function secretBytes (secret) {
  if (secret === undefined || secret === null) return undefined
  if (typeof secret !== 'string' && !(secret instanceof Uint8Array)) throw new InvalidArgument('childSecret must be a string or a Buffer')
  const length = Buffer.byteLength(secret)
  if (length < 16) throw new InvalidArgument(`childSecret has ${length} bytes, and needs 16 or more: make one with randomBytes(32), and keep it`)
  return bytes(secret)
}

const withSecret = (key, secret) => secret ? createHmac('sha256', secret).update(key).digest('hex').slice(0, key.length) : key

// bytes returns what is stored: bytes and strings as they are, and anything else as JSON.
function bytes (x) {
  if (x instanceof Uint8Array) return Buffer.from(x.buffer, x.byteOffset, x.byteLength)
  return Buffer.from(typeof x === 'string' ? x : JSON.stringify(x) ?? 'null')
}

const isJSON = /^application\/(\S+\+)?json\b/i
const encode = (x) => x instanceof Uint8Array ? [bytes(x), 'application/octet-stream'] : [Buffer.from(JSON.stringify(x) ?? 'null')]

function decode (body, contentType) {
  if (isJSON.test(contentType)) {
    try { return JSON.parse(body) } catch { return body.toString() }
  }
  return contentType.startsWith('text/') ? body.toString() : body
}

// fields returns headers as an object with names in lower case, from such an object or from lines.
function fields (headers = {}) {
  const all = Array.isArray(headers) ? headers.map((line) => line.split(/:\s*(.*)/s, 2)) : Object.entries(headers)
  const found = {}
  for (const [name, value] of all) {
    const key = name.toLowerCase()
    found[key] = key in found ? `${found[key]}, ${value}` : String(value).trim()
  }
  return found
}

// contentKey returns a key that is derived from what is asked. Two equal orders have the same one.
function contentKey (parts, { secret } = {}) {
  if (!Array.isArray(parts) || !parts.length) throw new InvalidArgument('contentKey needs an array with the parts of what is asked')
  const hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secretBytes(secret))
  return hash.update(canonical(parts)).digest('hex')
}

// fingerprint returns the SHA-256 of a request: of bytes, of a string in UTF-8, or of the canonical JSON of anything else.
function fingerprint (request) {
  if (request === undefined || request === null) return Buffer.alloc(0)
  const plain = typeof request === 'string' || request instanceof Uint8Array
  return createHash('sha256').update(plain ? request : canonical(request)).digest()
}

// canonical returns JSON with sorted names and without spaces, as the client for Python writes it.
function canonical (x) {
  if (typeof x?.toJSON === 'function') x = x.toJSON()
  if (typeof x === 'bigint' || Number.isInteger(x)) return BigInt(x).toString()
  if (typeof x === 'number') {
    if (!Number.isFinite(x)) throw new InvalidArgument(`the request has the number ${x}, which JSON does not have`)
    return Math.abs(x) < 1e-4 ? x.toExponential().replace(/e-(\d)$/, 'e-0$1') : String(x)
  }
  if (typeof x !== 'object' || x === null) return JSON.stringify(x) ?? 'null'
  if (Array.isArray(x)) return `[${x.map(canonical)}]`
  if (x instanceof Map || x instanceof Set) throw new InvalidArgument('the request has a Map or a Set, which JSON does not have')
  const names = Object.keys(x).filter((name) => !['undefined', 'function', 'symbol'].includes(typeof x[name]))
  names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(x[name])}`)}}`
}

const marker = Buffer.from('\xf5retrysafe\x01', 'latin1') // begins all that is encrypted; the last byte is the format's version

// Encryption encrypts answers and steps in the format of the Go package cryptstore: XAES-256-GCM with a keyset of Tink.
class Encryption {
  #primary; #keys
  constructor (keyset, { plaintext = 'refuse' } = {}) {
    if (!['refuse', 'accept', 'write'].includes(plaintext)) throw new InvalidArgument('plaintext must be refuse, accept or write')
    this.plaintext = plaintext
    this.use(keyset)
  }

  use (keyset) { [this.#primary, this.#keys] = readKeyset(keyset) }

  seal (digest, kind, content) {
    if (this.plaintext === 'write') return content
    const id = Buffer.alloc(5, 1)
    id.writeUInt32BE(this.#primary, 1)
    const nonce = Encryption.nonce()
    const cipher = createCipheriv('aes-256-gcm', derived(this.#keys.get(this.#primary), nonce.subarray(0, 12)), nonce.subarray(12))
    cipher.setAAD(Buffer.concat([marker, digest, Buffer.from(kind)]))
    return Buffer.concat([marker, id, nonce, cipher.update(content), cipher.final(), cipher.getAuthTag()])
  }

  unseal (digest, kind, content) {
    if (!isSealed(content)) {
      if (!content.length || this.plaintext !== 'refuse') return content
      throw new Unreadable('what is stored is not encrypted: it is of before encryption was switched on, was written by another ' +
        "program, or was made up; plaintext: 'accept' reads it")
    }
    const sealed = content.subarray(marker.length)
    const id = sealed.length < 5 ? undefined : sealed.readUInt32BE(1)
    const key = this.#keys.get(id)
    if (key && sealed[0] === 1 && sealed.length > 45) { // no empty content is encrypted
      const decipher = createDecipheriv('aes-256-gcm', derived(key, sealed.subarray(5, 17)), sealed.subarray(17, 29))
      decipher.setAAD(Buffer.concat([marker, digest, Buffer.from(kind)]))
      decipher.setAuthTag(sealed.subarray(-16))
      try {
        return Buffer.concat([decipher.update(sealed.subarray(29, -16)), decipher.final()])
      } catch {} // its text says nothing
    }
    throw new Unreadable(`what is stored cannot be decrypted (it names key ${id}): if the keyset lacks that key, put it back; ` +
      'otherwise it was changed, or belongs elsewhere')
  }

  // sealAnswer encrypts an answer with its content type and headers, which the database then stores as none.
  sealAnswer (digest, failed, code, contentType, lines, body) {
    const meta = httpMeta(contentType, lines)
    return this.seal(digest, place('a', failed, true, true, code), Buffer.concat([length(meta.length), meta, body]))
  }

  openAnswer (digest, failed, code, meta, body) {
    const at = (kind) => place(kind, failed, meta.length > 0, body.length > 0, code)
    let opened = body
    if (meta.length && body.length && isSealed(meta) !== isSealed(body)) { // of a service, which encrypts both in the body
      if (!isSealed(body)) throw new Unreadable('a part of the answer is encrypted and the other is not: it was changed')
      const [n, rest] = number(this.unseal(digest, at('a'), body))
      meta = rest.subarray(0, n)
      opened = rest.subarray(n)
    } else {
      opened = this.unseal(digest, at('b'), body)
      meta = this.unseal(digest, at('m'), meta)
    }
    const lines = meta.toString().startsWith('http/1\n') ? meta.toString().split('\n').slice(1) : []
    return {
      body: opened,
      contentType: lines.find((line) => line.startsWith('Content-Type: '))?.slice(14) ?? '',
      headers: lines.filter((line) => line.indexOf(': ') > 0 && !'>@'.includes(line[0]) && !line.startsWith('Content-Type: '))
    }
  }

  static nonce () { return randomBytes(24) }
}

const isSealed = (content) => !!content && Buffer.compare(content.subarray(0, marker.length), marker) === 0

function needed (encryption) {
  if (!encryption) throw new Unreadable('what is stored is encrypted: pass the option encryption, a new Encryption(keyset)')
  return encryption
}

// readKeyset reads the JSON of a keyset of Tink, in cleartext. Errors have nothing of it.
function readKeyset (text) {
  const keys = new Map()
  let primary
  try {
    const keyset = JSON.parse(text)
    primary = keyset.primaryKeyId
    for (const { status, keyId, outputPrefixType, keyData: { typeUrl, value } } of keyset.key) {
      if (status !== 'ENABLED') continue
      const key = protobuf(Buffer.from(value, 'base64'))
      const params = protobuf(key[2])
      if (typeUrl !== 'type.googleapis.com/google.crypto.tink.XAesGcmKey' || outputPrefixType !== 'TINK' || key[3].length !== 32 ||
        params[1] !== 12) throw new Error()
      keys.set(keyId, key[3])
    }
  } catch { keys.clear() }
  if (!keys.has(primary)) {
    throw new InvalidArgument('the keyset is not one that retrysafe keyset new has made, in cleartext: its keys are XAES-256-GCM')
  }
  return [primary, keys]
}

// protobuf reads a message whose fields are numbers and bytes.
function protobuf (message) {
  const fields = {}
  for (let tag, value; message.length;) {
    [tag, message] = number(message)
    ;[value, message] = number(message)
    fields[tag >> 3] = (tag & 7) === 2 ? message.subarray(0, value) : value
    if ((tag & 7) === 2) message = message.subarray(value)
  }
  return fields
}

// number reads a varint, and returns what comes after it too.
function number (data) {
  for (let n = 0, i = 0; i < data.length; i++) {
    n += (data[i] & 127) * 2 ** (7 * i)
    if (data[i] < 128) return [n, data.subarray(i + 1)]
  }
  throw new Unreadable('what is stored is cut off')
}

// length returns a length as a varint.
function length (n) {
  const out = []
  for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 + 128)
  return Buffer.from([...out, n])
}

// derived returns the key of one message, as XAES-256-GCM derives it: https://c2sp.org/XAES-256-GCM.
function derived (key, salt) {
  const aes = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  const k1 = Buffer.alloc(16)
  const zero = aes.update(Buffer.alloc(16))
  for (let i = 0; i < 16; i++) k1[i] = zero[i] << 1 | (zero[i + 1] ?? 0) >> 7
  if (zero[0] > 127) k1[15] ^= 0x87
  return Buffer.concat([1, 2].map((n) => {
    const block = Buffer.concat([Buffer.from([0, n, 0x58, 0]), salt])
    return aes.update(block.map((byte, i) => byte ^ k1[i]))
  }))
}

const digest = (scope, key) =>
  createHash('sha256').update(Buffer.concat([length(scope.length), scope, length(key.length), key])).digest().subarray(0, 16)

// leaseDigest returns the digest of the key that a lease token is of.
function leaseDigest (lease) {
  if (!/^v1\.[\w-]{54}$/.test(lease)) throw new InvalidLease('this is not a lease token: pass the header Retrysafe-Lease as it came, or op.lease')
  return Buffer.from(lease.slice(3), 'base64url').subarray(0, 16)
}

function place (kind, failed, hasMeta, hasBody, code) {
  const at = Buffer.alloc(6, kind)
  at[1] = failed | hasMeta << 2 | hasBody << 3
  at.writeInt32BE(code, 2)
  return at
}

const notStored = /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|date|age|via|warning|content-length|set-cookie|content-type|idempotent[^a-z0-9]replayed|idempotency[^a-z0-9]status|retrysafe[^a-z0-9].*)$/i

// httpMeta returns what describes an answer over HTTP, with the rules of the SQL function http_meta.
function httpMeta (contentType, lines) {
  /* eslint-disable no-control-regex */
  if (/[\x00-\x1f\x7f]/.test(contentType)) throw new InvalidArgument('the content type has a control character')
  let meta = `http/1\nContent-Type${contentType ? ': ' : ''}${contentType}\n`
  for (const line of lines) {
    const [, name, value] = /^([-\w!#$%&'*+.^`|~]+):[ \t]*(.*?)[ \t]*$/s.exec(line) ?? []
    if (!name || /[\x00-\x08\x0a-\x1f\x7f]/.test(line)) throw new InvalidArgument('a header is not one that can be sent, such as Location: /charges/17')
    if (notStored.test(name)) throw new InvalidArgument(`the header ${name} cannot be stored: leave it out, or pass contentType`)
    meta += name.split('-').map((word) => word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase()).join('-') + `: ${value}\n`
  }
  if (Buffer.byteLength(meta) > 65536) throw new InvalidArgument(`content type and headers have ${Buffer.byteLength(meta)} bytes, and the limit is 65536`)
  return Buffer.from(meta)
}

module.exports = {
  Encryption, Unreadable, once, claim, hold, complete, fail, release, step, saveStep, childKey, extend, fingerprint, contentKey, RetrysafeError, InFlight, Mismatch, Abandoned,
  Retryable, Unknown, OutcomeUnknown, AnswerGone, Misuse, Failed, LeaseLost, InvalidLease, NoSuchClaim, AnswerConflict, NoTransaction, InvalidArgument
}
