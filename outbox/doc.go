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
// The sink sends: package webhook has one, and so has each package below queuesafe. RelayOptions.Lease must be longer
// than a batch takes, and RelayOptions.MaxTries says when a message becomes a dead letter. New returns an error for an
// unknown dialect or a name that is not allowed; errors of the database do not end Run, and are retried.
// docs/outbox.md is the page to read before production.
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
// # Encryption
//
// Options.Keys encrypt the header and the body of each message; key, topic and aggregate stay readable. A message that
// cannot be decrypted is retried like one whose receiver is down, so that it becomes a dead letter and is not lost.
//
// # Databases
//
// PostgreSQL, SQLite, and MySQL with MariaDB are supported, with any driver of database/sql; Save also takes pgx's
// transactions. The dialect MySQL is tested on MariaDB 10.11 alone. Leases, delays and ages are measured by the
// database's clock, so the clocks of the machines do not matter. Relays do not listen for notifications, because
// database/sql has no interface for them: a relay polls every Idle, and when Wake is called.
//
// design.md in the folder of this package says why it is built so and what its files are.
package outbox
