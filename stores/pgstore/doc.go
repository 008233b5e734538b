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
package pgstore
