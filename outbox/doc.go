// Package outbox saves messages in the same database transaction as the business write that they announce, and sends
// them afterwards through a Sink: to a webhook, a broker or any other receiver.
//
//	box, err := outbox.New(db, outbox.PostgreSQL, outbox.Options{})
//	_, err = box.Migrate(ctx)
//
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders …")
//	err = outbox.Save(ctx, box, tx, outbox.Message{Topic: "orders", Body: body})
//	err = tx.Commit()
//
//	relay := outbox.NewRelay(box, sink, outbox.RelayOptions{}) // in this process, in others, in as many as you like
//	err = relay.Run(ctx)
//
// # Guarantees
//
// A message whose transaction committed is sent at least once, even if processes are killed or paused and receivers are
// unreachable, unless it becomes a dead letter. A message whose transaction did not commit is never sent.
//
// Delivery is at least once because a relay can die between the receiver's acknowledgement and the update of the table.
// Every delivery of a message therefore carries the same Key, with which the receiver deduplicates. For webhooks
// httpsafe's middleware does that; see package webhook.
//
// While the lease of a relay runs, no other relay sends the messages that it took. A relay that is so slow that its
// lease expires may have sent messages that another relay sends again. From then on only the other relay's results
// count.
//
// # Order
//
// Messages without an Aggregate are sent in no particular order. Messages with the same Aggregate are sent in the
// order of their IDs, each after the receiver has taken the previous one. A message that cannot be sent blocks those
// behind it.
//
// The database assigns IDs before the transactions commit. Two transactions that write about one aggregate at the
// same time may commit in the opposite order, and the later ID may be sent before the earlier one becomes visible.
// Writers that need a strict order must therefore lock the aggregate's row (SELECT … FOR UPDATE, or an UPDATE of it)
// before they call Save. SQLite needs no such lock, because it has one writer at a time.
//
// # Databases
//
// PostgreSQL, SQLite, and MySQL with MariaDB are supported, with any driver of database/sql; Save also takes pgx's
// transactions. The dialect MySQL is tested on MariaDB 10.11 alone. Leases, delays and ages are measured by the database's clock, so the clocks of the machines do not matter. Relays do not
// listen for notifications, because database/sql has no interface for them: a relay polls every Idle, and when Wake
// is called.
//
// # Where things are
//
//   - message.go, save.go: Message, its key, and Save; grants.go: who may save through SQL
//   - relay.go, batch.go: Relay takes batches, sends them and saves the results
//   - due.go, lease.go: the statements that take due messages and settle them
//   - letters.go, stats.go: dead letters, statistics and the sweep, for operators
//   - sql.go, sql/: one folder of statements per dialect, one statement per file
//
// # Design
//
//   - Save knows no driver, and takes only transactions. SQLTx and PgxTx are interfaces with Commit and Rollback, which
//     no pool or connection has. Save reads one thing of a statement's result: how many rows were affected. None means
//     that another message has the key (on MySQL two, because there a connection's settings decide what none means);
//     the statement reports that without failing, so that the transaction can continue.
//   - A lease is a random owner and a time. A relay that takes a message writes both, and only that owner may settle
//     it. While the lease runs, due_at lies in the future, so that one column and one small index serve waiting, leased
//     and due messages alike.
//   - Three statements for a batch, without RETURNING and arrays. Rows are chosen with SKIP LOCKED (SQLite: in an
//     immediate transaction), leased by one update and settled by another, both given JSON, which every database and
//     driver supports. A dialect is a folder of the same files.
//   - MySQL locks the rows that a statement reads, not those that it returns, and has no indexes of some rows only. So
//     the statements of that dialect choose in inner SELECTs, which lock nothing, and force the order of tables and the
//     index. Its plans are bounded with the statistics of a new table too.
//   - A try counts when it starts, so that a message which crashes its relay becomes a dead letter as well.
//   - Of an aggregate only the first unsent message is ever taken, so that sinks may send a batch in any order.
//   - A lookup is bounded. It reads the thousand messages that have been due for longest. Only if these are not enough
//     it walks through the aggregates by the index, a thousand at a time, and continues there at the next lookup.
//     Messages behind a dead letter cost nothing, however many.
//   - The relay is not an adapter. It has no guard and claims no keys: it sends at least once, and the receiver runs at
//     most once.
package outbox
