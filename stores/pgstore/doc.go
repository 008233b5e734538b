// Package pgstore keeps records in PostgreSQL, for any number of processes at once: every claim and completion is committed
// before it is acknowledged, and a completion can share the transaction of the work itself. It is made for PostgreSQL 14 or
// newer; its tests run 15.
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
// The tables. claims has one narrow row for each key that is taken, found by the 16-byte digest of the key; no other index
// is touched when an attempt ends. Answers lie apart, in results, one partition for each day on which work ended; a day is
// dropped whole once nobody may read anything of it. A record whose key has been claimed anew while people may still read it
// goes to older. The view records shows it all to people, answers in JSON as JSON. Answers are stored as bytes: types that
// know JSON would change them.
//
// The batches. An operation goes at once if one of the workers, each a connection at a time, is free. Otherwise it waits
// with others, and they go together, in one transaction with one sync: nothing ever waits for more to come. If a
// transaction fails, each of its operations is tried in one of its own, so that each gets its own answer; a caller who
// leaves is dropped from the queue. A row that somebody's transaction holds keeps a batch waiting for a second; then its
// operations go one by one, and as long as a worker is held up there is another in its place. Statements take rows in the
// order of their keys, and may look at no more rows than they were given, whatever the statistics say. Deadlocks are
// tried again, and so are operations whose connection breaks: each may be repeated. All transactions of the Store's own are read
// committed, whatever the database's default.
//
// Waiting. Someone who waits for a key marks its row, and only the end of a marked attempt sends a notification. One
// connection for each Store, outside of the pool, listens for these, and is made when somebody waits for the first time. It
// must be a direct one: see Options.Listen. Where no notification comes, as through PgBouncer in transaction mode, Watch
// says so within seconds, and who waits polls.
//
// The clock is the server's. Leases and retentions are compared with it inside the statements, so that clients whose
// clocks are wrong agree. Fences are its microseconds, and grow for each key even if it is set back.
//
// Sweeping. Rows are deleted some in each transaction, by an index on the minute in which they are due, and no row that is
// locked is waited for. Of many processes one sweeps at a time. It makes the partitions of the next week, and detaches
// those of past days concurrently before it drops them: a long reader holds the sweep up, and nobody else. A completion that
// finds no partition makes it.
//
// Roles. Migrate needs to create a schema. A Store needs the rights that Grants lists, and no right to create or drop
// anything; then days are dropped only by a sweep of the tables' owner.
//
// Connections. The pool bounds Options.Connections. pgxpool makes 4 connections, or as many as there are CPUs if these are more,
// unless its URL has pool_max_conns; sweeps, InTx and Inspector take theirs from the same pool.
//
// PgBouncer in transaction mode works, with default_query_exec_mode=cache_describe in the pool's URL if it is older than
// 1.21 or has no max_prepared_statements. Without that pgx prepares each statement on one connection of the server's, and
// the next transaction may get another: calls fail, now and then, with SQLSTATE 26000, 42P05 or 08P01, and the error says so.
//
// # What it does not promise
//
// A server that acknowledges commits before they are on disk (synchronous_commit = off, fsync = off), or that fails over to
// a standby that lacks some, forgets claims: the work may then run again. A role's lock_timeout or statement_timeout makes
// operations fail that wait for a row which somebody's transaction holds; without them they wait until Options.Timeout.
//
// # Design
//
//   - Narrow claims, separate answers. claims has a row for each key and no body, half of each page is free, and no
//     index is on a column that a completion changes, so completing touches no index. Answers are partitioned by the
//     day on which the work ended, not by that of the claim: nothing is ever added to a past day, which can be dropped
//     without looking at pending claims.
//   - Two workers are enough, and best, because their batches are larger. A worker yields before it takes the queue, so
//     that callers which have just been answered join the batch: a fifth more throughput, and no delay.
//   - A batch runs under planner settings that leave only lookups of primary keys, at the price of one statement. A
//     single operation goes without them where its plan is certain.
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
