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
// Open returns [ErrInUse] while another process has the file open, [ErrDamaged], [ErrNotOurs] or [ErrNewerSchema].
// [Store.InTx] completes a key in the transaction of the work, if its tables are in the same file. [New] takes a
// database that the program has opened.
//
// # Before you deploy
//
// The space. On Linux and macOS a part of the disk is kept for keys that were accepted: an eighth, or 64 MiB if that is
// less, beside what the write-ahead log is going to take. New keys are refused with retrysafe.ErrStoreFull before it is
// used, so that heartbeats, steps and completions do not find the disk full. Nothing keeps other programs from using it,
// and a program that saves more in the file asks CheckSpace first. The log has no bound while a transaction of the program,
// or a backup, reads from the file: owners that write more than is kept meanwhile may find the disk full. It gives the
// space back when that has ended.
//
// # What it does not promise
//
// SQLite keeps no checksums of its pages. Damage that breaks the structure of the file is reported as ErrDamaged, at
// opening (files up to 4 MB are checked as a whole, larger ones at their head) or when it is met, and Check reads the
// whole file for it. A flipped bit inside a value is not noticed. A disk that acknowledges a sync and then forgets it,
// or a network file system, breaks the promise of durability.
//
// design.md in the folder of this package says how it works, why it is built so, and what its files are.
package sqlitestore
