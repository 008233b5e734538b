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
// The table must exist before New: [CreateTable] makes it, and [TableDefinition] is its definition. Calls return
// [ErrClockSkew] while DynamoDB's time is not known exactly enough for [Options.MaxSkew]. [Store.InTx] completes a key
// together with the writes of the work. docs/store-dynamodb.md is the page to read before production.
//
// # Before you deploy
//
// Large answers are written before the completion, in items of 384 KB under a name that is drawn anew for each call;
// the completion names them, and only then can they be seen. What no record names is deleted by the time to live.
// Larger than [MaxBytes] is refused with retrysafe.ErrResultTooLarge.
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
//     that is extended for longer than that loses it; claims then return [ErrPartMissing].
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
// design.md in the folder of this package says how it works, why it is built so, and what its files are.
package dynamostore
