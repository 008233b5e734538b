// Package storekit holds what the stores of this repository share, so that a rule about a record is written once.
//
//   - record.go: a record as the SQL stores keep it, and what the contract says of it at a time: whether it has
//     expired, what a claim finds, how callers see it.
//   - watch.go: the callers of Watch, by key, and how they are woken.
//   - claim.go: what the operation of a claim remembers, and how it leaves a record that a transaction holds.
//   - guess.go: whether the next claim is likely to be of a new key, which decides the statement that is tried first.
//   - operation.go, batch.go, batcher.go, workers.go: how the operations of many callers reach a database server in
//     batches, and how each gets its own answer whatever becomes of its batch.
//   - migration.go: the history of a schema, and whether a program fits the version that a database has.
//   - list.go: the limits of a listing, its newest records, and how records are counted.
//   - intx.go: how a transaction of the user's ends: with the completion of its attempt, or not at all.
//
// Stores written elsewhere do not need it: the contract is retrysafe.Store, and stores/storetest checks it.
package storekit
