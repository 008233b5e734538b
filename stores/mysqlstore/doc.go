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
// The tables must exist before New: Migrate makes them. New returns [ErrNoSchema] or [ErrNewerSchema] if they do not
// fit this version, and calls after Close return [ErrClosed]. All options have defaults. [Store.InTx] completes a key
// in the transaction of the work. docs/store-mysql.md is the page to read before production.
//
// # Before you deploy
//
// The connections. Those of the Store come from the user's pool and never go back, because their sessions have settings
// of their own: isolation, sql_mode, time zone, lock waits. So neither the parameters of the data source name nor the
// server's defaults matter to it. InTx uses a session of the user, as it is.
//
// Waiting. An attempt that ends wakes the waiters of its own Store at once. For those of other processes, a Store asks
// the server twice a second, as long as there are waiters, with one statement for all keys that are watched: MySQL has
// no notifications.
//
// Searches. Find uses an index of IDs, of tags, or of arrival, and AddSightings counts the requests that find a record,
// without holding up claims. A claim with tags is a transaction of several statements in place of one.
//
// Roles. Migrate needs to create tables. A Store needs the rights that Grants lists, and no right to create or drop
// anything; then days are dropped only by a sweep of an account that may.
//
// Services. Procedures such as retrysafe_complete do for services in any language what InTx does for a Go program.
// They run with the rights of their owner, and the account of a service needs what [ServiceGrants] lists. Their
// reference is docs/store-mysql.md.
//
// # What it does not promise
//
// A server that acknowledges commits before they are on disk, or that fails over to a replica that lacks some, forgets
// claims: the work may then run again. Risks reads the settings that allow it.
//
// design.md in the folder of this package says how it works, why it is built so, and what its files are.
package mysqlstore
