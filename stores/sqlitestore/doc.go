// Package sqlitestore keeps records in one SQLite file: no server, nothing to set up, and every claim and completion is
// on disk before it is acknowledged. It serves one process; the file is locked while it is open.
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
// The file. Records lie in the order of their arrival; the id of one is the fence of its first claim, so that an
// attempt finds its row without an index. One unique index, on the 16-byte digest of the key, is all that a claim
// needs; there is none on deadlines. A record whose key has been claimed anew while people may still read it is
// marked archived, and leaves that index. A pending record has room for a result of the size that results have had
// lately, so that completing it moves no other row. The view retrysafe_keys shows it all to people.
//
// The writer. One goroutine owns the one connection that writes. It takes all operations that wait into one
// transaction, which ends with one sync (WAL mode, synchronous=FULL), and then answers them; meanwhile the next ones
// gather. It never waits for more to come, except that callers it has just answered get a turn to come back. If a
// transaction fails, each of its operations is tried in one of its own, so that each gets its own answer; on a full
// disk all of them fail, and succeed again once there is space.
//
// The readers. Keys that are done or in flight are answered by connections that only read: they wait for no writer
// and no sync, and see only what is on disk. A claim that is likely to be new, going by the last ones, skips that
// look.
//
// The clock. It starts at the wall clock and goes on with the monotonic one, and never falls behind the last fence:
// steps of the wall clock change nothing while the file is open, and fences grow whatever happens.
//
// Sweeping. The store remembers, for each minute of arrivals, when the next record in it is due, and walks only those
// minutes. What is due goes in pieces of some milliseconds of the writer's time, each in a transaction that claims
// share, and a pass goes on where the one before stopped. The store sweeps a little as it is used. A file that is
// mostly free is shortened, at leisure while callers wait.
//
// # What it does not promise
//
// SQLite keeps no checksums of its pages. Damage that breaks the structure of the file is reported as ErrDamaged, at
// opening (files up to 4 MB are checked as a whole, larger ones at their head) or when it is met, and Check looks for
// all of it; a flipped bit inside a value goes unseen. A disk that acknowledges a sync and then forgets it, or a
// network file system, breaks the promise of durability.
package sqlitestore
