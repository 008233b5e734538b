// Package pgstore keeps records in PostgreSQL, for any number of processes at once. Every claim and completion is
// committed before it is acknowledged, and a completion can share the transaction of the work itself. It is made for
// PostgreSQL 14 or newer; its tests run 15.
//
//	pool, err := pgxpool.New(ctx, url)
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//	if _, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{}); err != nil {
//		return err
//	}
//	store, err := pgstore.New(ctx, pool, pgstore.Options{})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # How it works
//
// The tables. claims has one narrow row for each key that is taken, found by the 16-byte digest of the key. No other
// index is touched when an attempt ends. Answers are in a table of their own, results, with one partition for each
// day on which work ended. A partition is dropped as a whole once no answer in it may be read. A record whose key has
// been claimed again while its answer may still be read moves to the table older. The view records shows all of it,
// with answers that are JSON as JSON. Answers are stored as bytes, because PostgreSQL's JSON types would change them.
//
// The batches. An operation starts at once if a worker is free; each worker uses one connection at a time. Otherwise
// the operation waits in the queue, and a worker takes all that wait into one batch: one transaction with one sync.
// No worker waits for more operations to come. If a batch fails, each of its operations is tried in a transaction of
// its own, so that each gets its own answer. An operation whose caller leaves is dropped from the queue.
//
// Locked rows. A batch waits for a second at most for a row that another transaction has locked; then its operations
// run one by one. While a worker is held up for longer than that, another one runs in its place. Statements lock rows
// in the order of their keys. Deadlocks are tried again, and so are operations whose connection breaks: each may be
// repeated.
//
// The plans. Planner settings, in each transaction, leave no plan but a search in a primary key for each row,
// whatever the statistics say. All transactions of the Store's own are read committed, whatever the database's
// default.
//
// Waiting. A caller of Watch marks the row of the key, and only the end of a marked attempt sends a notification. One
// connection for each Store, outside of the pool, listens for these; it is made by the first call of Watch. It must
// be a direct one: see Options.Listen. If no notification arrives, as through PgBouncer in transaction mode, Watch
// returns an error within seconds, and its caller polls.
//
// The clock is the server's. Leases and retentions are compared with it inside the statements, so that clients whose
// clocks are wrong agree. Fences are its microseconds, and grow for each key even if it is set back.
//
// Sweeping. Rows are deleted in small transactions, by an index on the minute in which they are due, and a row that
// is locked is skipped. One process at a time holds the sweep lock. It makes the partitions of the next week, and
// detaches those of past days concurrently before it drops them: a long read delays the sweep and no other operation.
// A completion that finds no partition makes it.
//
// Roles. Migrate needs to create a schema. A Store needs the rights that Grants lists, and no right to create or drop
// anything; then days are dropped only by a sweep of the tables' owner.
//
// The SQL functions. A service in any language claims its keys, and completes them in its own transaction, with
// functions of the schema: migrations/003_functions.sql, described in docs/sql-functions.md. Its role needs what
// ServiceGrants lists, and no right to a table.
//
// Connections. The pool bounds Options.Connections. pgxpool makes 4 connections, or as many as there are CPUs if
// these are more, unless its URL has pool_max_conns; sweeps, InTx and Inspector take theirs from the same pool.
//
// PgBouncer in transaction mode works, with default_query_exec_mode=cache_describe in the pool's URL if it is older
// than 1.21 or has no max_prepared_statements. Without that pgx prepares each statement on one connection of the
// server's, and the next transaction may get another: calls fail, now and then, with SQLSTATE 26000, 42P05 or 08P01,
// and the error says so.
//
// # What it does not promise
//
// A server that acknowledges commits before they are on disk (synchronous_commit = off, fsync = off), or that fails
// over to a standby that lacks some, forgets claims: the work may then run again. A role's lock_timeout or
// statement_timeout makes operations fail that wait for a locked row; without them they wait until Options.Timeout.
//
// # Where things are
//
//   - store.go: Options, New, Close. errors.go: the errors, and what to do about those of the server.
//   - claim.go, lease.go: the five methods. A call is an operation: it has a step, the row of one statement.
//   - operation.go, batch.go: how operations reach the database together, and how they get their answers. The workers
//     that run them are in internal/storekit.
//   - statements.go, rows.go, sql/: the statements, and the values of their rows.
//   - record.go: a row that was read. What it means is in internal/storekit, for all SQL stores.
//   - watch.go, listener.go: Watch, and the connection that receives notifications.
//   - intx.go, transaction.go: InTx and InSQLTx.
//   - sweep.go, partitions.go, purge.go: Sweep and Purge. inspect.go: Inspect, List, Stats, PendingAges.
//   - risks.go: which settings of the server can lose claims.
//   - migrate.go, script.go, grants.go, reserved.go, migrations/: the schema.
//
// # Design
//
//   - Narrow claims, separate answers. claims has a row for each key and no body, half of each page is free, and no
//     index is on a column that a completion changes, so completing touches no index. Answers are partitioned by the
//     day on which the work ended, not by that of the claim: nothing is ever added to a past day, which can be dropped
//     without looking at pending claims.
//   - Two workers are enough, and best, because their batches are larger. A worker yields before it takes the queue, so
//     that callers which have just been answered join the batch: a fifth more throughput, and no delay.
//   - A claim has two statements. insert.sql takes new keys with ON CONFLICT DO NOTHING, in half the time that the
//     upsert of acquire.sql needs just to start; the upsert is for keys whose record was found to be free again. Which
//     is tried first follows the last claims.
//   - Steps stay in their table until their record is deleted. Moving them to the answer made every completion pay for
//     them.
//   - Fences are unique to a key, not to a store: uniqueness over all keys would cost a counter that all claims share,
//     and nothing needs it. A listing continues by fence and includes ties.
//   - What a statement reads is older than the statement and newer than its transaction. A lease that ended in between
//     is read again, so that a lease which was extended is never reported as abandoned.
//   - A released key keeps its row for a minute. Without steps the row has no effect on claims, but it keeps fences
//     growing when the clock is set back a little, and a late copy of insert.sql finds it. Statistics count it, and a
//     sweep deletes it.
//   - InTx marks its transaction with a setting (SET LOCAL) and checks the mark before it completes: a transaction that
//     its function has ended has none. A savepoint would show the same, but the transaction could no longer choose its
//     isolation.
//   - A transaction in doubt is never released (AttemptControl.InDoubt): if it may have been committed without the
//     completion, the work cannot know that nothing happened. Steps inside InTx are saved by the transaction, so that a
//     step's result exists if and only if its writes do.
//   - A migration names the oldest program that can work with it, so that migrating, running old and new programs side
//     by side, and going back need no stop.
package pgstore
