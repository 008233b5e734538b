import type { Pool } from 'pg'
import type { ClaimOptions } from './index.js'

/**
 * Calls call(key) twice at once, and a third time. There must be one effect and one answer. One of the two calls may throw,
 * as the loser does with InFlight. Throws an AssertionError, for node:test, jest and others.
 *
 * pool: of the owner of the schema, in a database that only this test uses: the first call is kept from completing its key
 * by a trigger, until the second has begun.
 * effects: returns how many effects there are, such as the number of rows in the table of charges.
 */
export function checkTwoAtOnce (
  pool: Pool, call: (key: string) => unknown, effects: () => number | Promise<number>, options?: { schema?: string }
): Promise<void>

/**
 * Completes a key by hand, and finds out whether call() returns that answer, decoded, and leaves the tables alone. scope, key
 * and request are what the program passes to once; each run needs a new key. effects returns what the work would change,
 * such as the number of rows, or the rows.
 */
export function checkCompleted (
  pool: Pool, options: Pick<ClaimOptions, 'scope' | 'key' | 'request' | 'schema'> & { answer?: unknown },
  call: () => unknown, effects: () => unknown
): Promise<void>
