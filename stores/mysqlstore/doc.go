// Package mysqlstore keeps records in MySQL or MariaDB, for any number of processes at once. Every claim and completion
// is committed before it is acknowledged, and a completion can share the transaction of the work itself. It is made for
// MySQL 8.0 and MariaDB 10.6 or newer, with InnoDB; its tests run MariaDB 10.11, and it has not met MySQL.
//
//	db, err := sql.Open("mysql", "app:secret@tcp(db:3306)/shop")
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	if _, err := mysqlstore.Migrate(ctx, db, mysqlstore.MigrateOptions{}); err != nil {
//		return err
//	}
//	store, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # How it works
//
// The tables. retrysafe_claims has one narrow row for each key that is taken, found by the 16-byte digest of the key.
// Answers are in a table of their own, retrysafe_results, with one partition for each day on which work ended. A
// partition is dropped as a whole once no answer in it may be read. A record whose key has been claimed again while its
// answer may still be read moves to retrysafe_older. The view retrysafe_records shows all of it. All columns of keys
// are binary: no collation takes one key for another.
//
// The batches. An operation starts at once if a worker is free; each worker uses one connection at a time. Otherwise
// the operation waits in the queue, and a worker takes all that wait into one batch: one transaction with one sync. No
// worker waits for more operations to come. If a batch fails, each of its operations is tried in a transaction of its
// own, so that each gets its own answer. An operation whose caller leaves is dropped from the queue.
//
// The statements. New keys are taken by one INSERT IGNORE, which is a transaction by itself and one round trip. The
// changes of keys that are there lock their rows, decide in this program, and write all rows with one statement. An
// answer is read with its record by one statement, without locks. A completion that is alone in its batch is one CALL
// of a procedure, which does the same in the usual case, that the attempt holds its key. An Extend or a Release without
// steps is one UPDATE then. In all other cases these change nothing, and the operation locks and decides as above.
//
// Locked rows. A batch waits for a second at most for a row that another transaction has locked; then its operations
// run one by one. While a worker is held up for longer than that, another one runs in its place. Statements lock rows
// in the order of their keys, and READ COMMITTED locks no gaps between them. Deadlocks are tried again, and so are
// operations whose connection breaks: each may be repeated.
//
// The connections. Those of the Store come from the user's pool and never go back, because their sessions have settings
// of their own: isolation, sql_mode, time zone, lock waits. So neither the parameters of the data source name nor the
// server's defaults matter to it. InTx uses a session of the user, as it is.
//
// Waiting. An attempt that ends wakes the waiters of its own Store at once. For those of other processes, a Store asks
// the server twice a second, as long as there are waiters, with one statement for all keys that are watched: MySQL has
// no notifications.
//
// The clock is the server's, in UTC. Leases and retentions are compared with the time at which a statement began, so
// that a lease which is extended while the statement waits is not taken for abandoned. Fences are its microseconds, and
// grow for each key even if it is set back.
//
// Sweeping. Rows are deleted in small transactions, by an index on the minute in which they are due, and a row that is
// locked is skipped. One process at a time sweeps, under GET_LOCK. It makes the partitions of the next week, and drops
// those of past days. Both need the table for a moment; if a long transaction uses it, they give up after a second and
// try again later. A completion that finds no partition makes it.
//
// Roles. Migrate needs to create tables. A Store needs the rights that Grants lists, and no right to create or drop
// anything; then days are dropped only by a sweep of an account that may.
//
// Services. Procedures such as retrysafe_complete do for services in any language what InTx does for a Go program.
// They run with the rights of their owner, and the account of a service needs what ServiceGrants lists. Their
// reference is docs/store-mysql.md.
//
// # What it does not promise
//
// A server that acknowledges commits before they are on disk, or that fails over to a replica that lacks some, forgets
// claims: the work may then run again. Risks reads the settings that allow it.
//
// # Where things are
//
//   - store.go: Options, New, Close. conn.go: the connections. errors.go: the errors, and what to do about those of
//     the server.
//   - claim.go, lease.go: the five methods. A call is an operation: it has a step, and decides about one row.
//   - operation.go, batch.go: how operations reach the database together, and how they get their answers. The workers
//     that run them are in internal/storekit.
//   - statements.go, rows.go, execute.go, sql/: the statements, the values of their rows, and how they are executed.
//     record.go: a row that was read. What it means is in internal/storekit, for all SQL stores.
//   - watch.go: Watch, and the poller. intx.go: InTx.
//   - sweep.go, partitions.go, purge.go: Sweep and Purge. inspect.go: Inspect, List, Stats, PendingAges.
//   - risks.go: Risks.
//   - migrate.go, grants.go, migrations/: the schema.
//
// # Design
//
//   - No statement of MySQL returns what it has changed, as RETURNING does in PostgreSQL. Therefore a change locks its
//     row, decides here, and writes. The time of a new key is the insert ID of its INSERT, so that one round trip is
//     enough for it, on MySQL and on MariaDB.
//   - Statements that are executed often are prepared, for few numbers of rows; the rows that are missing repeat
//     another one. A prepared row of a new key took the server 12 µs, one written as text 21 µs, most of it in the parser.
//     Other values are written as hex digits, which mean the same under every setting of a session.
//   - The usual way of a completion is five round trips, and that of a procedure one. It has the rights of its
//     caller, and no rule of its own: where it fails, the usual way decides. Through a proxy that delays each
//     packet, where a plain UPDATE took 4.5 ms, one caller had a completion in 4.6 ms instead of 21, and 73
//     claims with completions a second instead of 25; 16 callers had 220 instead of 139. On the same machine,
//     without syncs, it gains little: 0.54 ms instead of 0.62 with one caller, and nothing with 16 that could
//     be measured. A batch of more operations does not use it, because each call is a transaction with a sync
//     of its own.
//   - A procedure that makes partitions has the rights of its owner, so that a Store needs none to change tables.
//   - Deletes are one row for each statement. For many rows the server may read the whole table and lock rows of
//     others, and a DELETE takes no index hint on MariaDB.
//   - An error in a procedure does not end the caller's transaction, so those that complete roll it back before
//     they fail. Otherwise a service that ignores the error of a lost lease would commit its work, which another
//     attempt may have done too.
//   - The procedure of claims is a transaction of its own, with READ COMMITTED. SET TRANSACTION asks for that, and
//     fails inside of a transaction, on MySQL and on MariaDB. A savepoint that is gone at once tells the others that
//     they are outside of one. The variable in_transaction exists in MariaDB alone.
//   - The procedures are a second migration, so that a database with the first one gets them. It gives the procedure
//     that a Store calls another name; a program of before gets an error from the new one, and completes in its
//     usual way.
//   - Procedures have no default arguments: what is rarely needed is a JSON object, whose names are checked.
//   - A savepoint marks the transaction of InTx: releasing it fails once the transaction has ended, by whatever
//     statement.
package mysqlstore
