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
// Watch, Inspect and Purge ask the shard of the key; List and Find merge the listings of all shards, Stats adds them
// up, and Sweep sweeps one after the other. What a shard cannot do returns an error that is errors.ErrUnsupported and
// names it.
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
// docs/moving-stores.md has the commands.
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
// design.md in the folder of this package says why it is built so and what its files are.
package shardstore
