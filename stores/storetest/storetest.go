// Package storetest holds a test for every sentence of the retrysafe.Store contract. Run it against any Store: the
// stores of this repository do, and so can one written elsewhere; it needs nothing but the standard library.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: open, Age: age, Reopen: reopen})
//	}
//
// Each rule is a subtest with a name and the sentence that it checks. Rules for Sweeper, Watcher, Inspector, Walker,
// Purger, Reopener, Finder and SightingKeeper run if the store implements them, rules for durability if the harness can
// reopen it. No rule sleeps: time passes by Harness.Age. Run the suite with -race.
//
// RunServer has the rules for stores on a server that several processes share: what their Stores owe each other, and
// what becomes of calls when the server or a connection fails.
//
// RunInTx has the rules for stores with InTx, whose completions share a transaction with what the work writes, and
// RunCompleteTx those for stores with CompleteTx, where the work ends the transaction. A store without them does not
// call them.
package storetest

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Harness tells Run how to open a store and how to make time pass in it.
type Harness struct {
	// Open returns a fresh, empty store, and closes it with t.Cleanup. Each rule opens its own. Required.
	Open func(t *testing.T) retrysafe.Store

	// Age lets d pass on the store's clock for everything that the store holds: afterwards each lease, each retention
	// and each age is as if d more had gone by. It never sleeps. A store whose clock can be set moves it ahead;
	// one that uses a server's clock moves the stored instants back by d, in all records, in one statement.
	// d is a few seconds to a few days. Required.
	Age func(t *testing.T, s retrysafe.Store, d time.Duration)

	// Reopen ends s the hard way (without a flush, as far as possible) and opens what it left behind.
	// Nil: the store does not outlive its process, and the rules for durability do not run.
	Reopen func(t *testing.T, s retrysafe.Store) retrysafe.Store

	// TooLarge is a number of bytes that the store will never take as a result, nor as a step. The rule about that makes
	// a slice of so many zeros, which costs little as long as nothing reads it. 0: the store takes any.
	TooLarge int

	// Copies says that the store keeps two copies of a record, as a move does. Of several Reopens at once more than one may
	// succeed then, since together they free the key once; and a claim that it gives back may count as an attempt.
	Copies bool

	// Walks is how many random walks, each from a seed of its own, are compared with the model, and in proportion to it
	// how many of the traces of Traces. Default 20. A slow store sets fewer.
	Walks int
}

// rule is one sentence of the contract and the code that checks it.
type rule struct {
	name     string
	sentence string
	check    func(k *kit)
}

// Run checks each rule in a subtest. It runs nothing in parallel, so the harness may share a server between stores.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil || h.Age == nil {
		t.Fatal("storetest: Harness.Open and Harness.Age are required")
	}
	for _, r := range rulesFor(h, h.Open(t)) {
		t.Run(r.name, func(t *testing.T) {
			k := newKit(t, h)
			defer func() {
				if t.Failed() {
					t.Logf("the rule: %s", r.sentence)
				}
			}()
			r.check(k)
		})
	}
	if h.Walks == 0 {
		h.Walks = 20
	}
	t.Run("walk", func(t *testing.T) { walk(t, h) })
	t.Run("traces", func(t *testing.T) {
		ops, diff := differingTrace(t, h, stepsOfWalk*h.Walks)
		if diff == "" {
			return
		}
		if at, alone := play(t, h, ops); alone != "" {
			ops, diff = shortest(t, h, ops[:at+1], alone)
		}
		t.Fatalf("the store differs from the model after\n%s%s", history(ops), diff)
	})
}

// rulesFor lists the rules that hold for stores like s.
func rulesFor(h Harness, s retrysafe.Store) []rule {
	var rules []rule
	for _, table := range [][]rule{
		claimRules, recordRules, takeOverRules, leaseRules, fenceRules, stepRules, completeRules, releaseRules,
		retentionRules, expiryRules, byteRules, contextRules, concurrencyRules, lateCallRules(),
	} {
		rules = append(rules, table...)
	}
	if h.TooLarge > 0 {
		rules = append(rules, tooLargeRules...)
	}
	if _, ok := s.(retrysafe.Sweeper); ok {
		rules = append(rules, sweeperRules...)
	}
	if _, ok := s.(retrysafe.Watcher); ok {
		rules = append(rules, watcherRules...)
	}
	if _, ok := s.(retrysafe.Inspector); ok {
		rules = append(rules, inspectorRules...)
	}
	if _, ok := s.(retrysafe.Finder); ok {
		rules = append(rules, finderRules...)
	} else {
		rules = append(rules, noFinderRules...)
	}
	if _, ok := s.(retrysafe.SightingKeeper); ok {
		rules = append(rules, sightingRules...)
	}
	if _, ok := s.(retrysafe.Walker); ok {
		rules = append(rules, walkerRules...)
	}
	_, purges := s.(retrysafe.Purger)
	if _, inspects := s.(retrysafe.Inspector); purges && inspects {
		rules = append(rules, purgerRules...)
	}
	_, reopens := s.(retrysafe.Reopener)
	if _, inspects := s.(retrysafe.Inspector); reopens && inspects {
		rules = append(rules, reopenerRules...)
	}
	if _, ok := s.(retrysafe.LeaseEnder); ok {
		rules = append(rules, enderRules...)
	}
	if h.Reopen != nil {
		rules = append(rules, reopenRules...)
	}
	return rules
}
