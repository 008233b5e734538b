// Package shardstore makes one retrysafe.Store of several: each key is kept by one of them, its shard, which rendezvous
// hashing finds from the names of the shards and the digest of the key.
//
//	store, err := shardstore.New([]shardstore.Shard{
//		{Name: "a", Store: a},
//		{Name: "b", Store: b},
//	}, shardstore.Options{})
//
// # How it works
//
// Each shard has a score for each key, computed from its name and the key's digest, and the shard with the highest one
// has the key. Neither the order of the shards nor their addresses matter, so that a shard can move to another server.
// Every process must use the same names. Each call goes to one shard; a shard that is down takes its own keys down and
// no others, and the error names it.
//
// Watch, Inspect and Purge ask the shard of the key; List merges the listings of all shards, Stats adds them up, and
// Sweep sweeps one after the other. What a shard cannot do returns an error that is errors.ErrUnsupported and names it.
//
// # Moving keys
//
// Growing, and moving from one store to another, are one mechanism. During a move a key has two shards, the old and the
// new one. A key whose shard stays the same does not move. Every process goes through four stages, and all processes
// are at the same stage, or at two that follow each other:
//
//	0  a Store of the old shards      the old store alone
//	1  Move with OldDecides           both, the old one first: it decides
//	2  Move with NewDecides           both, the new one first: it decides
//	3  a Store of the new shards      the new store alone
//
// A Claim takes the key in the store that decides, the first one, and then in the other, the second one. Only who has
// it in both works on it; what was taken first is given back otherwise. A key that is abandoned is looked up in the
// second store before it is taken over. Extend, Complete and Release go to the first store, which answers, and then
// to the second one. Checkpoint and Release succeed only if both do, and so does Extend at stage 2, which extends the
// lease in the old store first. A lease that could not be extended in the new store at stage 1 runs out there, and an
// answer that could not be saved in the second store is found in the first one.
//
// Why no work runs twice:
//
//   - Two processes at stages that are allowed together share a store in which both must have the key: the old one
//     for 0 beside 1, both for 1 beside 2, the new one for 2 beside 3. That store gives the key to one of them.
//   - An attempt is safe as long as it has its lease in the store that decides for it. Every other process that may run
//     beside it must take the key there too, whatever decides for that process.
//   - An answer is acknowledged once the store that decides has it. A process for which the other one decides finds it
//     there when it claims the key in its second store, and gives back what it took first.
//   - At stage 1 a record that the new store has and that is unfinished counts for nothing if the old store begins the
//     key anew: every attempt of stages 0, 1 and 2 is claimed in the old store, and its lease runs there at least until
//     it runs in the new one. At stage 2 the opposite does not hold,
//     because the new store does not know what was claimed before the move. So an unfinished record in the old store is
//     obeyed: if it is abandoned, so is the key.
//   - Attempts at stage 0 save steps in the old store alone, those at stage 3 in the new one alone. So a claim in both
//     returns the steps of both, and saves in each what it lacks.
//   - A process that dies between its two claims leaves one of them. Its lease runs out, and the key is abandoned as if
//     the process had died a moment later; at stage 1 what was left in the new store is deleted.
//   - The last stage must not begin before the answers of stages 0 and 1 have expired, or are in the new store: one
//     retention after the last process has left stage 1. The command "retrysafe store move" looks. The same holds for a
//     way back: one retention after the last process has left stage 2, before a process returns to stage 0.
//
// Every call may arrive late, after its caller has given it up. So a lease that was given back without an answer counts
// for nothing any more: if its owner claims again, it is given back once more, and the next lease has a larger fence,
// which the late call does not name. A take-over that was given back without an answer is refused to the same owner.
//
// Fences are those of the store that decides. So that they grow when the other one decides, a claim waits until the
// clocks of both stores have passed both fences, up to a second; then it fails, and names the clock that is behind.
// This needs stores each of whose new fences is at least their clock, also where a record exists, as in this
// repository.
//
// # What it does not promise
//
// It promises what its shards promise. Keys are spread evenly, but not by their load: one key that is very busy is
// busy on one shard.
//
// During a move a key needs both of its stores, and a claim takes two calls, one after the other; one of a key that is
// in flight looks into both. At stage 2 a key of before the move takes three. A transaction of the work completes the
// attempt in the store that decides alone: the lease in the other runs out by itself. Stats and Sweep may count a key
// twice while it moves between shards of the same Store.
//
// A shard that fails over to a server which lacks acknowledged claims endangers its keys as it does without a move.
//
// # Where things are
//
//   - store.go: Shard, Options, New, and the five methods. place.go: which shard has a key.
//   - move.go: a claim in two stores. record.go: what it does to the records of one of them. leases.go: the leases that
//     attempts hold in the second store.
//   - inspect.go: Inspect, Stats and Purge. list.go: List. sweep.go: Sweep, Watch and Risks.
//   - model_test.go: the model of a move, which walks through stages, crashes and lost answers, and the mistakes that
//     it must find.
//
// # Design
//
//   - Rendezvous hashing needs no table and no ring: adding the n-th shard moves one key in n, all of them to the new
//     shard, and two programs that know the names agree.
//   - Records that a shard has of keys which are not its own are what is left of another set of shards. No method shows
//     them, and the sweep of their shard deletes them.
//   - Records are not copied from one store to the other in the background: a copy would need a fence in every store,
//     and would race with attempts. Retention ends them anyway.
//   - The lease in the second store has an owner of its own, so that a transaction there completes nothing. It is
//     found by the first lease, in the memory of the process that claimed.
//   - One store claims before the other in all processes of a stage. At stages 1 and 2 side by side the order
//     differs, and two claims of a new key at the same moment may refuse each other; both callers are told that it is
//     in flight.
package shardstore
