// Package sqlitestore keeps records in one SQLite file: no server, nothing to set up, and every claim and completion
// is on disk before it is acknowledged. It serves one process; the file is locked while it is open.
//
//	store, err := sqlitestore.Open("retrysafe.db", sqlitestore.Options{})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # How it works
//
// The file. Records are stored in the order of their arrival; the id of a record is the fence of its first claim, so
// that an attempt finds its row without an index. One unique index, on the 16-byte digest of the key, is all that a
// claim needs; there is none on deadlines. A record whose key has been claimed again while its answer may still be
// read is marked archived, and leaves that index. A pending record has room for a result of the size that results have
// had lately, so that completing it moves no other row. The view retrysafe_keys shows all of it to people.
//
// The writer. One goroutine owns the one connection that writes. It takes all operations that wait into one
// transaction, which ends with one sync (WAL mode, synchronous=FULL), and then answers them. Meanwhile the next ones
// gather. It does not wait for more operations to come, except that callers that it has just answered get the time to
// call again. If a transaction fails, each of its operations is tried in one of its own, so that each gets its own
// answer; on a full disk all of them fail, and succeed again once there is space.
//
// The readers. Keys that are done or in flight are answered by connections that only read: they wait for no writer and
// no sync, and see only what is on disk. A claim that is likely to be of a new key, by the last claims, skips that
// read.
//
// The clock. It starts at the wall clock, advances with the monotonic clock, and is never behind the last fence: steps
// of the wall clock change nothing while the file is open, and fences always grow.
//
// Sweeping. The store remembers, for each minute of arrivals, when the next record in it is due, and reads only those
// minutes. Records are deleted in pieces of some milliseconds of the writer's time, each in a transaction that claims
// share, and a pass starts where the one before stopped. The store sweeps a little as it is used. A file with many
// free pages is shortened, in small pieces while callers wait.
//
// # What it does not promise
//
// SQLite keeps no checksums of its pages. Damage that breaks the structure of the file is reported as ErrDamaged, at
// opening (files up to 4 MB are checked as a whole, larger ones at their head) or when it is met, and Check reads the
// whole file for it. A flipped bit inside a value is not noticed. A disk that acknowledges a sync and then forgets it,
// or a network file system, breaks the promise of durability.
//
// # Where things are
//
//   - store.go: Open, New, Close. errors.go: the errors, and what to do about those of SQLite.
//   - claim.go, lease.go: the five methods. record.go: a row that was read; what it means is in internal/storekit.
//   - writer.go: the goroutine that writes, its queue and its transactions. readers.go: the connections that read.
//   - query.go, sql/: the statements, and how they are run. clock.go: the store's clock.
//   - intx.go: InTx. watch.go: Watch.
//   - sweep.go, purge.go: Sweep and Purge. inspect.go: Inspect, List, Stats. check.go: Check.
//   - schema.go, migrations/: the schema. filelock.go: the lock that keeps other processes away.
package sqlitestore
