// Package outbox saves messages together with the business write that they are about, in one database transaction, and sends them
// afterwards: to a webhook, to a broker, to whatever a Sink reaches.
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
// # What is promised
//
// A message whose transaction has committed is sent at least once, whatever is killed, paused or unreachable, unless it becomes a dead
// letter; one whose transaction has not is never sent. At least once, because between a receiver's "got it" and the note of it in the table
// there is always a moment in which a relay can die. So every delivery of a message carries the same Key, with which a receiver makes it once:
// for webhooks that is httpsafe's middleware, see package webhook.
//
// Two relays do not send the same message while the lease of the one that has taken it runs. A relay that was so slow that its
// lease ran out may have sent what another one sends again; whether it has been sent, failed or died, is for the other one to say.
//
// # Order
//
// Messages without an Aggregate are sent in no order. Those with the same one are sent in the order of their IDs, each after the one before it
// has been taken by its receiver; what cannot be sent holds up what is behind it. The database gives IDs before it commits: two transactions
// that write about one aggregate at the same time may commit in the other order, and the later ID may be sent before the earlier one is
// there to be seen. So the order is only as good as the writers make it: let each lock the aggregate's row (SELECT … FOR UPDATE, or an UPDATE of
// it) before it saves. SQLite has one writer at a time, which is enough.
//
// # Databases
//
// PostgreSQL and SQLite, with any driver of database/sql; Save also takes pgx's transactions. The clock is the database's: leases, delays and
// ages do not depend on those of the machines. Nobody listens for notifications, which database/sql cannot: a relay looks again after Idle, or
// when Wake is called.
package outbox
