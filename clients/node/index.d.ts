import type { ClientBase, Pool, PoolClient } from 'pg'

/** Options of a key. */
export interface ClaimOptions {
  /** What the key is a key of: a kind of operation, and the caller if callers choose keys. */
  scope: string | Uint8Array
  /** Names one operation. Every call with the same scope and key is about the same operation. */
  key: string | Uint8Array
  /**
   * What the operation is asked to do: bytes, a string, or anything that becomes JSON. The same key with another request
   * throws Mismatch. Without a request, one key stands for one request, whatever it is.
   */
  request?: unknown
  /** For how many seconds other calls get InFlight if this process dies. Default 30. */
  lease?: number
  /** For how many seconds later calls get the answer. Default 86,400: a day. */
  keep?: number
  /** For how many seconds to wait for an attempt that runs, before InFlight is thrown. Default 0. */
  wait?: number
  /**
   * Whether to run if an earlier attempt began and did not end; otherwise Abandoned is thrown. Default: true in once, whose
   * work is in the transaction, and false in claim. With false, once calls the work a single time: after a crash and after
   * an exception other than Retryable, later calls throw Abandoned, because an effect outside of the transaction may have
   * happened.
   */
  takeOver?: boolean
  /** How often the transaction is run, if it fails with 40001 or 40P01 or the lease is lost. Default 10. */
  tries?: number
  /** The schema of Retrysafe. Default retrysafe. */
  schema?: string
  /**
   * Up to 4 names and values by which people find the key, such as { order: '1234' }. Records keep them in the clear, and a
   * record that is there keeps its own: no secrets. Default: none.
   */
  tags?: Record<string, string>
  /** Encrypts the answer and the results of steps before they reach the database. Default: they are stored as they are. */
  encryption?: Encryption
  /**
   * A function for counters. It is called with claimed when an attempt begins, replayed when a stored answer is returned,
   * in_flight, mismatch and abandoned when the error of that name is thrown, and lost when an attempt was taken over by
   * another. What it throws is ignored. Default: none.
   */
  observe?: (event: 'claimed' | 'replayed' | 'in_flight' | 'mismatch' | 'abandoned' | 'lost') => void
}

/**
 * Encrypts answers and the results of steps with a keyset that "retrysafe keyset new" has made: its text. Go programs and
 * the proxy read them with the same keyset, and the other way round. Keys, scopes, codes and names of steps are not
 * encrypted.
 */
export class Encryption {
  /**
   * plaintext says what becomes of content that is not encrypted: refuse (the default) throws Unreadable, accept reads it,
   * and write reads it and encrypts nothing yet, for the first step of switching encryption on.
   */
  constructor (keyset: string | Uint8Array, options?: { plaintext?: 'refuse' | 'accept' | 'write' })
  readonly plaintext: 'refuse' | 'accept' | 'write'
  /** Replaces the keyset, for everything that is encrypted or decrypted from now on. */
  use (keyset: string | Uint8Array): void
}

export interface OnceOptions extends ClaimOptions {
  /** The isolation of the transaction. Default: that of the database. */
  isolation?: 'read committed' | 'repeatable read' | 'serializable'
  /**
   * At least 16 bytes, or a string in UTF-8. With it the operation's key cannot be guessed from its child keys. It stays the same for as long as an operation may be resumed. Default: none.
   */
  childSecret?: string | Uint8Array
}

/** The answer of an operation, the same for the first call and for every later one. */
export interface Result<T = unknown> {
  /** The answer, decoded from body: JSON, or a string if the content type is text, or else a Buffer. */
  answer: T
  /** Whether an earlier call did the work. */
  replayed: boolean
  failed: boolean
  /** The attempt that did the work; 1 is the first. */
  attempt: number
  code: number
  contentType: string
  /** Names are in lower case. */
  headers: Record<string, string>
  /** The bytes of the answer. */
  body: Buffer
}

export interface AnswerOptions {
  /** A status from 200 to 399, or from 400 to 599 for a failure. Default 200, or 422 for a failure. */
  code?: number
  /** Default application/json. */
  contentType?: string
  headers?: Record<string, string>
}

export interface EndOptions extends AnswerOptions {
  /** For how many seconds later calls get the answer. Default: what the claim says. */
  keep?: number
  schema?: string
  /** As in ClaimOptions. */
  encryption?: Encryption
}

export interface SchemaOptions { schema?: string }

export interface StepOptions extends SchemaOptions {
  /** As in ClaimOptions. */
  encryption?: Encryption
}

export interface ChildKeyOptions extends SchemaOptions {
  /** As in OnceOptions. */
  childSecret?: string | Uint8Array
}

/** A key that was claimed, or the answer of an earlier attempt. */
export interface Claim {
  /** The right to complete the key, for complete, fail and release. Keep it out of logs. */
  readonly lease: string
  /** 1 is the first. */
  readonly attempt: number
  /** The answer, if an earlier attempt has completed the key: do not run the work. */
  readonly result?: Result
}

/** What the work of once does with its key. */
export interface Operation {
  readonly lease: string
  readonly attempt: number
  /**
   * Stores the answer, with a code, a content type or headers of its own: bytes and strings as they are, anything else as
   * JSON. Without this call, what the work returns is the answer.
   */
  complete (body: unknown, options?: AnswerOptions & { keep?: number }): Promise<void>
  /** Stores a final failure together with what the work has written. Throw Failed to have that rolled back. */
  fail (body: unknown, options?: AnswerOptions & { keep?: number }): Promise<void>
  /**
   * Returns the saved result of a part of the work, or runs that part and commits its result together with what it has
   * written. After a crash, the next attempt gets the saved result. A part that calls another system sends it childKey as
   * the idempotency key. Call step before the work writes anything else.
   */
  step<T> (name: string, work: (childKey: string) => T | Promise<T>): Promise<T>
  /** Returns the idempotency key for a call to another system: the same in each attempt at the operation. */
  childKey (name: string): Promise<string>
  /**
   * Makes the lease run for so many seconds from now. Once the work has written, that takes a second connection: one of the
   * pool, or, if none is to spare, one that is opened for it.
   */
  extend (seconds: number): Promise<void>
}

/**
 * Runs work(tx, op) in one transaction with the completion of its key, and returns what it returned, as JSON brings it
 * back. If the key was completed before, returns the stored answer, and the work does not run. An exception of the work
 * rolls the transaction back, gives the key up, and is thrown. With takeOver false, and if the exception is Unknown, the
 * key is left abandoned instead.
 *
 * tx is a client of the pool with a transaction, which once commits. The work runs again if the database refuses the
 * transaction with 40001 or 40P01, so it must not have effects outside of the transaction, except in steps.
 */
export function once<T> (
  pool: Pool, options: OnceOptions, work: (tx: PoolClient, op: Operation) => T | Promise<T>
): Promise<Result<T>>

/**
 * Claims a key in a transaction of its own, for work in a transaction that another library begins. If there is no result,
 * do the work and pass lease to complete in its transaction, or else to release.
 */
export function claim (pool: Pool, options: ClaimOptions): Promise<Claim>

/**
 * Makes COMMIT of the transaction that is open on the client fail unless it has completed, failed or released the key: call
 * it first.
 */
export function hold (client: ClientBase, lease: string, options?: SchemaOptions): Promise<void>
/**
 * Completes the key of a lease in the transaction that is open on the client, and returns the bytes of the answer. A
 * string or bytes are stored as they are, and anything else as JSON. Throws LeaseLost if another attempt has taken the key
 * over: roll back.
 */
export function complete (client: ClientBase, lease: string, body: unknown, options?: EndOptions): Promise<Buffer>
/** Stores a final failure, as complete stores a success. */
export function fail (client: ClientBase, lease: string, body: unknown, options?: EndOptions): Promise<Buffer>
/** Gives the key up: nothing happened, and a retry runs. */
export function release (client: ClientBase | Pool, lease: string, options?: SchemaOptions): Promise<void>
/** Returns what an attempt has saved under a name, or null. */
export function step (client: ClientBase | Pool, lease: string, name: string, options?: StepOptions): Promise<Buffer | null>
/** Saves the result of a part of the work in the transaction that is open on the client. The first result stays. */
export function saveStep (client: ClientBase, lease: string, name: string, data: unknown, options?: StepOptions): Promise<void>
/**
 * Returns the idempotency key for a call to another system: the same in each attempt at the operation, with the same
 * childSecret.
 */
export function childKey (client: ClientBase | Pool, lease: string, name: string, options?: ChildKeyOptions): Promise<string>
/** Makes the lease run for so many seconds from now. It counts when it is committed. */
export function extend (client: ClientBase | Pool, lease: string, seconds: number, options?: SchemaOptions): Promise<void>
/**
 * Returns the SHA-256 of a request: of bytes, of a string in UTF-8, or of the canonical JSON of anything else. Nothing
 * (null or undefined) has an empty fingerprint.
 */
export function fingerprint (request: unknown): Buffer

/**
 * Returns a key that is derived from what is asked: from values that become JSON, such as ['order', customer, items]. The
 * client for Python derives the same one.
 *
 * Warning: two equal orders have the same key. The second one is taken for a retry: its caller gets the answer of the first,
 * and nothing runs. Pass something that distinguishes two orders and is the same in each retry of one, such as the number of
 * the cart. A key that the caller chooses is better: it alone knows whether it repeats an order or places another one.
 *
 * secret, of at least 16 bytes, keeps readers of the key from testing guesses of the parts.
 */
export function contentKey (parts: readonly unknown[], options?: { secret?: string | Uint8Array }): string

/** The base of all errors of this module. Messages never have a lease or a key. */
export class RetrysafeError extends Error {
  /** The SQLSTATE, if the database raised the error. */
  readonly code?: string
}
/** Another attempt is running. Its lease ends in retryAfter seconds at most. */
export class InFlight extends RetrysafeError { readonly retryAfter: number }
/** The key was first used for a different request. */
export class Mismatch extends RetrysafeError {}
/** An earlier attempt began and did not end, or its work threw, and takeOver is off. */
export class Abandoned extends RetrysafeError {}
/**
 * Thrown in the work of once, it says that nothing happened, neither in the transaction nor elsewhere: the key is given up,
 * also with takeOver false.
 */
export class Retryable extends RetrysafeError {
  constructor (message?: string, options?: { cause?: unknown })
}
/**
 * Thrown in the work of once, it says that it is not known what happened, such as after a call to another system whose
 * answer was lost. The work is rolled back and the key is left abandoned, never given up: the next call takes it over, or
 * throws Abandoned with takeOver false.
 */
export class Unknown extends RetrysafeError {
  constructor (message?: string, options?: { cause?: unknown })
}
/** The answer to COMMIT was lost and the record could not be asked. Call again with the same key. */
export class OutcomeUnknown extends Unknown {}
/** The operation has completed, and its answer is not kept any more. */
export class AnswerGone extends RetrysafeError { readonly result: Omit<Result, 'answer' | 'body'> }
/** The calls were made in an order that cannot be exactly once. Nothing was committed. */
export class Misuse extends RetrysafeError {}
/** A final failure. Thrown in the work of once, it rolls the work back and is stored; every later call throws it again. */
export class Failed<T = unknown> extends RetrysafeError {
  constructor (answer: T, options?: AnswerOptions)
  readonly result: Result<T>
}
/** RS001: another attempt has taken the key over, or this one has ended. Roll back. */
export class LeaseLost extends RetrysafeError {}
/** RS002: the text is not a lease token. */
export class InvalidLease extends RetrysafeError {}
/** RS003: the key was never claimed in this database, or its record has expired. */
export class NoSuchClaim extends RetrysafeError {}
/** RS004: the key was completed with another answer, or by an earlier transaction. */
export class AnswerConflict extends RetrysafeError {}
/** RS005, RS008: hold, complete, fail or saveStep was called outside of a transaction. */
export class NoTransaction extends RetrysafeError {}
/** An answer or a step cannot be decrypted: the key is missing, it was changed, or there is no encryption. Nothing is lost. */
export class Unreadable extends RetrysafeError {}
/** RS006, and arguments of this module: the message says which one cannot be used, and why. */
export class InvalidArgument extends RetrysafeError {}
