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
// The schema must exist before New: Migrate makes it and needs the right to create a schema. New returns [ErrNoSchema]
// or [ErrNewerSchema] if it does not fit this version, and calls after Close return [ErrClosed]. All options have
// defaults; [Options.Listen] is needed behind PgBouncer. [Store.InTx] completes a key in the transaction of the work.
// docs/postgres.md is the page to read before production.
//
// # Before you deploy
//
// Waiting. A caller of Watch marks the row of the key, and only the end of a marked attempt sends a notification. One
// connection for each Store, outside of the pool, listens for these; it is made by the first call of Watch. It must
// be a direct one: see Options.Listen. If no notification arrives, as through PgBouncer in transaction mode, Watch
// returns an error within seconds, and its caller polls.
//
// Roles. Migrate needs to create a schema. A Store needs the rights that Grants lists, and no right to create or drop
// anything; then days are dropped only by a sweep of the tables' owner.
//
// The SQL functions. A service in any language claims its keys, and completes them in its own transaction, with
// functions of the schema: migrations/functions.sql, described in docs/sql-functions.md. Its role needs what
// [ServiceGrants] lists, and no right to a table.
//
// Connections. The pool bounds [Options.Connections]. pgxpool makes 4 connections, or as many as there are CPUs if
// these are more, unless its URL has pool_max_conns; sweeps, InTx and Inspector take theirs from the same pool.
//
// PgBouncer in transaction mode works, with default_query_exec_mode=cache_describe in the pool's URL if it is older
// than 1.21 or has no max_prepared_statements. Without that pgx prepares each statement on one connection of the
// server's, and the next transaction may get another: calls fail, now and then, with SQLSTATE 26000, 42P05 or 08P01,
// and the error says so.
//
// Searches. [Store.Find] looks a tag, a client's key or a greatest age up in an index; other searches read records
// from the newest on, for [Options.Timeout] at most. Migrate makes the index of a large table with CREATE INDEX
// CONCURRENTLY.
//
// # What it does not promise
//
// A server that acknowledges commits before they are on disk (synchronous_commit = off, fsync = off), or that fails
// over to a standby that lacks some, forgets claims: the work may then run again. A role's lock_timeout or
// statement_timeout makes operations fail that wait for a locked row; without them they wait until [Options.Timeout].
//
// design.md in the folder of this package says how it works, why it is built so, and what its files are.
package pgstore
