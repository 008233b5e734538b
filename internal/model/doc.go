// Package model is the contract of retrysafe.Store as a pure function: the state of one key, a call, and the answer. It
// has no lock, no schedule and no storage, so that it can be read beside the contract, and explored in all its states.
//
// One statement of the contract serves four purposes:
//
//   - The tests of this package explore every state of a small scope, breadth first, and check the invariants of
//     invariants_test.go, which are stated in terms of what callers were told.
//   - stores/storetest replays traces of the model against a store, and compares every answer and every record. The
//     traces of Cover take each transition of a small scope at least once; random ones go deeper.
//   - internal/testing/torture looks for an order of the calls that its processes made, crashed and lost in which the
//     model gives the same answers.
//   - integration gives the model to a checker of linearizability.
//
// docs/proof-model.md says what is modelled, what is not, and what was found.
package model
