'use strict'
// Encryption of answers and steps. sealed.json has what Go and Python write and read too.
const { test } = require('node:test')
const assert = require('node:assert/strict')
const { createHash } = require('node:crypto')
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { inspect } = require('node:util')
const retrysafe = require('retrysafe')
const { newKey, newPool, rejection, createTable, charge, charges } = require('./kit')

const { Encryption, Unreadable, InvalidArgument } = retrysafe
const table = JSON.parse(readFileSync(join(process.env.RETRYSAFE_TEST_DATA, 'sealed.json'), 'utf8'))
const keyset = JSON.stringify(table.keyset)
const secret = 'card 4242'
const plain = (text) => Buffer.from(text, 'base64')
const digest = ({ scope, id }) => {
  const parts = [scope, id].flatMap((part) => [Buffer.from([Buffer.byteLength(part)]), Buffer.from(part)])
  return createHash('sha256').update(Buffer.concat(parts)).digest().subarray(0, 16)
}
// only returns the keyset with the keys at these places.
const only = (places, primary = 0) => {
  const key = places.map((i) => table.keyset.key[i])
  return JSON.stringify({ primaryKeyId: key[primary].keyId, key })
}

// Seen to fail with the salt and the doubling left out of derived, the digest out of seal, and the length out of sealAnswer.
test('the bytes are those of other languages', (t) => {
  const keys = new Encryption(keyset)
  for (const a of table.answers) {
    const got = keys.openAnswer(digest(a), a.failed, a.code, plain(a.stored_meta), plain(a.stored_body))
    assert.deepEqual(got.body, plain(a.body))
    const meta = plain(a.meta).toString()
    assert(got.headers.every((line) => meta.includes(line + '\n')))
    assert(!got.contentType || meta.includes(`Content-Type: ${got.contentType}\n`))
    if (a.by !== 'service') continue
    assert.equal(got.contentType, a.content_type)
    t.mock.method(Encryption, 'nonce', () => plain(a.nonce))
    assert.deepEqual(keys.sealAnswer(digest(a), a.failed, a.code, a.content_type, a.headers, plain(a.body)), plain(a.stored_body))
  }
  for (const s of table.steps) {
    assert.deepEqual(keys.unseal(digest(s), `s${s.name}`, plain(s.stored)), plain(s.data))
    if (s.by !== 'service') continue
    t.mock.method(Encryption, 'nonce', () => plain(s.nonce))
    assert.deepEqual(keys.seal(digest(s), `s${s.name}`, plain(s.data)), plain(s.stored))
  }
})

// Seen to fail with the place left out of what is authenticated.
test('what was changed is unreadable', () => {
  const keys = new Encryption(keyset)
  for (const a of table.answers) {
    const [meta, body] = [plain(a.stored_meta), plain(a.stored_body)]
    const right = [digest(a), a.failed, a.code, meta, body]
    const changes = [[0, Buffer.alloc(16)], [1, !a.failed], [2, a.code + 1]]
    if (body.length) {
      const flipped = Buffer.from(body)
      flipped[flipped.length - 1] ^= 1
      changes.push([3, Buffer.alloc(0)], [4, body.subarray(0, -1)], [4, body.subarray(0, 20)], [4, Buffer.from('made up')], [4, flipped])
    }
    for (const [i, value] of changes) {
      assert.throws(() => keys.openAnswer(...right.map((x, j) => j === i ? value : x)), Unreadable, `${a.id} ${i}`)
    }
  }
})

// Seen to fail with keys that are not enabled read.
test('keysets', () => {
  const keys = new Encryption(Buffer.from(keyset))
  const key = plain(table.keyset.key[0].keyData.value).subarray(6, 9).toString('hex').replace(/..(?!$)/g, '$& ')
  assert(!inspect(keys, { showHidden: true, depth: 9 }).includes(key), 'a key is printed')
  const disabled = JSON.parse(keyset)
  disabled.key[0].status = 'DISABLED'
  const a = table.answers[0]
  const open = () => keys.openAnswer(digest(a), a.failed, a.code, plain(a.stored_meta), plain(a.stored_body)).body
  for (const text of [JSON.stringify(disabled), only([1])]) {
    keys.use(text)
    assert.throws(open, (e) => e instanceof Unreadable && e.message.includes(`names key ${table.keyset.key[0].keyId}`) && e.message.includes('put it back'))
  }
  keys.use(keyset)
  assert.deepEqual(open(), plain(a.body))
  const other = JSON.parse(keyset)
  other.key[0].keyData.typeUrl = 'type.googleapis.com/google.crypto.tink.AesGcmKey'
  for (const text of ['', '{}', 'hush', '{"encryptedKeyset":"AAAA"}', '{"primaryKeyId":1,"key":[]}', JSON.stringify(other)]) {
    assert.throws(() => new Encryption(text), (e) => e instanceof InvalidArgument && /retrysafe keyset new/.test(e.message) && !/hush/.test(e.message))
  }
  assert.throws(() => new Encryption(keyset, { plaintext: 'yes' }), InvalidArgument)
})

// The rules are those of the SQL functions, which do not see these headers. Seen to fail without notStored.
test('headers that cannot be stored', () => {
  const keys = new Encryption(keyset)
  for (const [type, line] of [
    ['a\nb', ''], ['', 'no colon'], ['', 'X: a\rb'], ['', 'Set-Cookie: a'], ['', 'Retrysafe-Lease: a'], ['', 'Content-Type: a'],
    ['', 'X: ' + 'a'.repeat(65536)]
  ]) assert.throws(() => keys.sealAnswer(Buffer.alloc(16), false, 200, type, line ? [line] : [], Buffer.alloc(0)), InvalidArgument)
})

const stored = async (pool) => Buffer.concat((await pool.query(
  'SELECT meta || body AS x FROM retrysafe.results UNION ALL SELECT data FROM retrysafe.steps')).rows.map((row) => row.x))

// Seen to fail with sealAnswer not called by end, with seal not called by saveStep, and with the headers passed on.
test('the database does not read answers', async (t) => {
  const pool = newPool(t)
  await createTable(pool)
  const o = { scope: 'encrypted', key: newKey(), encryption: new Encryption(keyset) }
  let steps = 0
  const work = charge(o.key, async (tx, op) => op.complete({ card: secret }, { code: 201, headers: { Location: `/${secret}` } }))
  for (const replayed of [false, true]) {
    const got = await retrysafe.once(pool, o, async (tx, op) => {
      for (let i = 0; i < 2; i++) assert.equal(await op.step('charge', () => { steps++; return secret }), secret)
      return work(tx, op)
    })
    assert.deepEqual([got.answer, got.code, got.contentType, got.headers, got.replayed],
      [{ card: secret }, 201, 'application/json', { location: `/${secret}` }, replayed])
  }
  assert.deepEqual([work.runs, steps, await charges(pool, o.key)], [1, 1, 1])
  const never = () => assert.fail('the work runs')
  assert((await rejection(retrysafe.once(pool, { ...o, encryption: undefined }, never))) instanceof Unreadable)
  const failed = await rejection(retrysafe.once(pool, { ...o, key: newKey() }, () => { throw new retrysafe.Failed(secret) }))
  assert.equal(failed.result.answer, secret)
  assert(!(await stored(pool)).includes(secret))
  assert((await rejection(retrysafe.once(pool, { ...o, encryption: keyset }, never))) instanceof InvalidArgument)
})

// As behind the proxy, where a service has the lease alone. Seen to fail with the digest of another key in leaseDigest.
test('with a lease alone', async (t) => {
  const pool = newPool(t)
  const encryption = new Encryption(keyset)
  const o = { scope: 'encrypted', key: newKey() }
  const { lease } = await retrysafe.claim(pool, o)
  const tx = await pool.connect()
  await tx.query('BEGIN')
  await retrysafe.hold(tx, lease)
  await retrysafe.saveStep(tx, lease, 'charge', secret, { encryption })
  assert.equal(String(await retrysafe.step(tx, lease, 'charge', { encryption })), secret)
  assert((await rejection(retrysafe.step(tx, lease, 'charge'))) instanceof Unreadable)
  assert.equal(String(await retrysafe.complete(tx, lease, secret, { encryption })), secret)
  await tx.query('COMMIT')
  tx.release()
  assert.equal(String((await retrysafe.claim(pool, { ...o, encryption })).result.body), secret)
  assert(!(await stored(pool)).includes(secret))
})

// Seen to fail with the first key of a keyset used instead of the primary one, and with each mode read as another.
test('rotation and plaintext', async (t) => {
  const pool = newPool(t)
  const run = newKey()
  const once = async (name, encryption) => (await retrysafe.once(pool, { scope: 'rotated', key: run + name, encryption }, () => name)).answer
  const by = async (name) => (await pool.query(
    'SELECT r.body FROM retrysafe.results r JOIN retrysafe.claims c ON c.k = r.k WHERE c.id = $1', [Buffer.from(run + name)])).rows[0].body
  const keys = new Encryption(only([0]))
  await once('old', keys)
  keys.use(only([0, 1])) // the second key decrypts
  await once('between', keys)
  keys.use(only([0, 1], 1))
  await once('new', keys)
  const number = async (name) => (await by(name)).readUInt32BE(12)
  const ids = table.keyset.key.map((key) => key.keyId)
  assert.deepEqual([await number('old'), await number('between'), await number('new')], [ids[0], ids[0], ids[1]])
  for (const name of ['old', 'between', 'new']) assert.equal(await once(name, keys), name)
  keys.use(only([1]))
  assert((await rejection(once('old', keys))) instanceof Unreadable)
  assert.equal(await once('new', keys), 'new')

  for (const plaintext of ['write', 'accept']) {
    await retrysafe.once(pool, { scope: 'rotated', key: run + plaintext, encryption: new Encryption(keyset, { plaintext }) }, async (tx, op) => {
      await op.step('one', () => 'step')
      const { rows: [row] } = await tx.query("SELECT retrysafe.step($1, 'one') AS data", [op.lease])
      assert.equal(row.data.includes('step'), plaintext === 'write')
    })
  }
  const [write, accept] = ['write', 'accept'].map((plaintext) => new Encryption(keyset, { plaintext }))
  assert.equal(await once('plain', write), 'plain')
  assert.equal(String(await by('plain')), '"plain"')
  assert.equal(await once('plain', accept), 'plain')
  assert.equal(await once('new', write), 'new')
  assert.match((await rejection(once('plain', new Encryption(keyset)))).message, /plaintext: 'accept'/)
})

// The Go test has written the first, and reads the second.
test('Go reads and writes the same', async (t) => {
  const pool = newPool(t)
  const o = { scope: 'languages', encryption: new Encryption(keyset) }
  const { result } = await retrysafe.claim(pool, { ...o, key: 'go' })
  assert.deepEqual([result.answer, result.code, result.contentType, result.headers], ['from Go', 201, 'text/plain', { location: '/go' }])
  await retrysafe.once(pool, { ...o, key: 'service' }, async (tx, op) => {
    await op.step('one', () => 'step')
    await op.complete('from a service', { code: 202, contentType: 'text/plain', headers: { Location: '/service' } })
  })
})
