// What TypeScript says of the types: integration/clientlibs compiles this file with --strict.
import { Pool } from 'pg'
import retrysafe, { once, contentKey, claim, hold, complete, step, Encryption, Failed, InFlight, Unknown, type Result, type Operation } from 'retrysafe'
import { checkTwoAtOnce, checkCompleted } from 'retrysafe/testing'

const pool = new Pool()
const counts: Record<string, number> = {}

async function pay (order: string, amount: number): Promise<Result<{ id: number }>> {
  return once(pool, { scope: 'payments', key: contentKey(['order', order]), request: { order, amount }, observe: (event) => { counts[event] = 1 }, isolation: 'serializable', childSecret: Buffer.alloc(32) }, async (tx, op: Operation) => {
    const { rows } = await tx.query<{ id: number }>('INSERT INTO charges (key) VALUES ($1) RETURNING id', [order])
    const sent: number = await op.step('mail', (childKey: string) => childKey.length)
    if (sent > 100) throw new Failed({ error: 'no money' }, { code: 402 })
    if (sent > 99) throw new Unknown('no answer', { cause: sent })
    return { id: rows[0]!.id }
  })
}

async function all (): Promise<void> {
  const id: number = (await pay('17', 4200)).answer.id
  const held = await claim(pool, { scope: Buffer.from('a'), key: 'b' })
  const code: number | undefined = held.result?.code
  const tx = await pool.connect()
  await hold(tx, held.lease)
  const stored: Buffer = await complete(tx, held.lease, { id, code }, { headers: { location: '/17' } })
  const saved: Buffer | null = await step(tx, held.lease, 'mail', { encryption: new Encryption('{}', { plaintext: 'accept' }) })
  try {
    await retrysafe.extend(pool, held.lease, 30)
  } catch (e) {
    if (e instanceof InFlight) setTimeout(all, e.retryAfter * 1000, stored, saved)
  }
  await checkTwoAtOnce(pool, (key) => pay(key, 4200), () => 1)
  await checkCompleted(pool, { scope: 'a', key: 'b', answer: { id: 1 } }, () => pay('b', 1), async () => [])
  // @ts-expect-error: the scope is missing
  await once(pool, { key: 'a' }, () => 1)
  // @ts-expect-error: there is no such isolation
  await once(pool, { scope: 'a', key: 'a', isolation: 'none' }, () => 1)
  // @ts-expect-error: a pool has no transaction
  await complete(pool, held.lease, 'x')
  // @ts-expect-error: a pool has no transaction
  await hold(pool, held.lease)
}
void all()
