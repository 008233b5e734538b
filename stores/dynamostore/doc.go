// Package dynamostore keeps records in Amazon DynamoDB, for any number of processes at once. A claim or a completion is
// durable in several availability zones before it is acknowledged, as AWS documents, and a completion can share a
// transaction with the writes of the work.
//
// It has not met AWS: its tests run on dynalite, a server with DynamoDB's protocol, and its transactions on a stand-in
// in front of it. See "What it was tested on".
//
//	client := dynamodb.NewFromConfig(config)
//	store, err := dynamostore.New(ctx, client, dynamostore.Options{Table: "retrysafe"})
//	if err != nil {
//		return err
//	}
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # How it works
//
// The table. Its partition key is the 16-byte digest of the key, in hex; its sort key says which item of the key it is.
// The item "key" takes part in claims. Items "old/…" are ended records whose key has been claimed again while their
// answer may still be read. Items "part/…" hold what is too large for a record: results of more than 32 KB, steps of
// more than 4 KB. There is no index.
//
// The calls. Each is one conditional write in the usual case: the claim of a new key is a PutItem that requires that
// there is none; heartbeat, checkpoint, completion and release name owner and fence in their condition. If a condition
// fails, DynamoDB returns the item as it was then, and the call answers from it; a server that does not return it is
// asked by a consistent read. To take over a key, or to claim one whose record has expired, the Store reads the record,
// decides, and writes under the condition that nothing has written it since: each write changes its fence or its
// version. If something has, the call starts anew.
//
// The deadlines are in the record, and in the conditions. DynamoDB's time to live deletes items an hour or more after
// they have lost all meaning, and decides nothing.
//
// The clock. DynamoDB's conditions have none, and the machine's is not trusted. The Date of each answer, which has
// whole seconds, bounds the offset between the process's monotonic clock and DynamoDB's from both sides; a few answers
// around the turn of a second bound it to milliseconds. An offset counts when two answers in a row agree on it, because
// one Date may be wrong. If the offset is not known to half of Options.MaxSkew, the Store asks for the time, and
// refuses with ErrClockSkew if that does not help. Each lease is written longer by MaxSkew, so that no process sees it
// end before its holder does. If an answer shows that the time in its request was wrong, a claim or a heartbeat is
// repeated; the end of an attempt whose time was older than MaxSkew is written again, so that its retention counts from
// its end.
//
// Large answers are written before the completion, in items of 384 KB under a name that is drawn anew for each call;
// the completion names them, and only then can they be seen. What no record names is deleted by the time to live.
// Larger than MaxBytes is refused with retrysafe.ErrResultTooLarge.
//
// Fences. The next fence of a key is at least one more, and at least the clock in microseconds. A key that was released
// without steps leaves its fence behind for an hour, so that a process whose clock is behind does not give a smaller
// one.
//
// Sweeping is left to DynamoDB's time to live. Sweep does something only if that is off.
//
// # What it does not promise
//
//   - In a global table with eventual consistency (MREC) each region checks conditions by itself: two regions can claim
//     one key at once. Risks reports it. Send all requests to one region.
//   - There is no Watcher: requests that wait for another attempt poll.
//   - List and Stats read the whole table, and cost what that costs.
//   - The times of two processes may differ by MaxSkew: a retention is exact only to that.
//   - A step of more than 4 KB is kept for a year longer than its record would have been when it was saved. An attempt
//     that is extended for longer than that loses it; claims then return ErrPartMissing.
//   - Steps share the item with the record, and 400 KB: about 80 of 4 KB. More fail with retrysafe.ErrResultTooLarge.
//
// # What it was tested on
//
// Conditions, updates, queries and scans ran on dynalite 4.0.0, with the whole of package storetest, processes that
// were killed and paused, and clocks that were wrong by an hour. Dynalite has no transactions and no time to live, and
// does not return the item on which a condition failed. For the first and the last the tests put a proxy in front of
// it that does what DynamoDB's documentation says; RunInTx of package storetest passes on it. Throttling, capacity,
// time to live and global tables were not tested on anything real.
//
// # Where things are
//
//   - store.go: Options, New. errors.go: the errors, and what to do about those of DynamoDB. risks.go: Risks.
//   - claim.go, lease.go, complete.go: the five methods. write.go: conditional writes. intx.go: InTx.
//   - record.go: a record as an item; what it means is in internal/storekit. parts.go: what does not fit into one.
//   - clock.go: DynamoDB's time.
//   - inspect.go, purge.go, sweep.go: Inspector, Purger, Sweeper. table.go: the definition of the table.
//
// # Design
//
//   - Which request comes first follows the last claims: a conditional write if they were of new keys, a read if they
//     were of known ones. A condition that fails costs as much as the write of that item would have; a consistent read
//     of a small item costs a fifth of a write.
//   - Results above 32 KB leave the record, because every failed condition and every heartbeat is billed by the size of
//     the item, and DynamoDB limits it to 400 KB.
//   - A version counts the writes since the last claim. A condition that names fence and version therefore holds only
//     for exactly what was read, steps and purges included; comparing owner, state and deadline would say less.
//   - Owner and fence alone guard what the holder writes, so that heartbeats, checkpoints and completions of one
//     attempt never fail because of each other.
//   - The names of steps are a set beside the list of their results, because a condition can ask whether a set
//     contains a name, and cannot ask that of a list of maps.
//   - The sort keys are in the order key, old, part: a query that runs while a record moves from the first to the
//     second sees it at least once.
package dynamostore
