package torture

import (
	"encoding/json"
	"fmt"
	"testing"
)

const (
	// racers claim the same key at the same moment.
	racers = 8
	// batch is how many keys they race for at once: a call to the test's process is too slow for each key.
	batch = 32
)

// Race has eight processes claim the same key at the same moment, once for each of so many keys: in a third of the
// rounds the key is new, in another third abandoned, in the last one released. Exactly one process may get it, under a
// greater fence than any before, and each other one must be told of that claim. Then the winner completes, in half of
// the rounds as soon as it can, and all must see its result. It runs in parallel with other tests.
func (s Subject) Race(t *testing.T, rounds int) {
	t.Helper()
	t.Parallel()
	if wrong := s.race(t, "", rounds); wrong != "" {
		t.Error(wrong)
	}
}

// raceSees breaks the store by a mutant, and fails if Race would not notice soon.
func (s Subject) raceSees(t *testing.T, mutant string) {
	t.Helper()
	const rounds = 2000
	wrong := s.race(t, mutant, rounds)
	if wrong == "" {
		t.Fatalf("not seen in %d rounds", rounds)
	}
	t.Logf("seen: %s", wrong)
}

// race returns what went wrong first.
func (s Subject) race(t *testing.T, mutant string, rounds int) (wrong string) {
	t.Helper()
	place := s.Place(t)
	n := racers
	if s.OneProcess {
		n = 1
	}
	all := make([]*process, n)
	for i := range all {
		all[i] = startProcess(t, "", job{
			Subject: s.Name, Place: place, Mutant: mutant, Race: true, Racers: racers / n, From: i * racers / n,
		})
		defer all[i].kill(t)
	}
	contended := 0
	for first := 0; first < rounds; first += batch {
		answers := map[phase][]answer{}
		for _, p := range []phase{prepare, claim, finish, look} {
			answers[p] = tell(t, all, order{p, first, min(batch, rounds-first)})
		}
		for key := first; key < min(first+batch, rounds); key++ {
			r := newRound(key, answers)
			if wrong := r.judge(); wrong != "" {
				return fmt.Sprintf("%s: %s", r, wrong)
			}
			if r.contended() {
				contended++
			}
		}
	}
	t.Logf("%d rounds; in %d of them the winner's claim and another one overlapped", rounds, contended)
	if contended < rounds/20 {
		return "the processes hardly ever claimed at the same moment: this was no race"
	}
	return ""
}

// tell has all processes do something at the same moment, and returns their answers.
func tell(t *testing.T, all []*process, o order) (answers []answer) {
	t.Helper()
	line, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, err := p.in.Write(append(line, '\n')); err != nil {
			t.Fatalf("a process of the race has ended: %v", err)
		}
	}
	for _, p := range all {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			t.Fatalf("a process of the race has ended: %v", err)
		}
		var some []answer
		if err := json.Unmarshal(line, &some); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		answers = append(answers, some...)
	}
	return answers
}

// round is the race for one key.
type round struct {
	key    int
	before []answer // of the one that prepared the key, if one did
	claims []answer // one of each racer
	done   []answer // what each saw in the end
}

func newRound(key int, answers map[phase][]answer) round {
	pick := func(p phase) (all []answer) {
		for _, a := range answers[p] {
			if a.Key == key {
				all = append(all, a)
			}
		}
		return all
	}
	return round{key: key, before: pick(prepare), claims: pick(claim), done: pick(look)}
}

func (r round) String() string { return fmt.Sprintf("key %d, which was %s", r.key, stateOf(r.key)) }

// winner returns the claims that got the key.
func (r round) winners() (all []answer) {
	for _, a := range r.claims {
		if a.Verdict == "acquired" {
			all = append(all, a)
		}
	}
	return all
}

// judge returns what is wrong, if something is.
func (r round) judge() string {
	winners := r.winners()
	if len(winners) != 1 || len(r.claims) != racers || len(r.done) != racers {
		return fmt.Sprintf("%d of %d racers have acquired it, and %d looked: %+v", len(winners), len(r.claims),
			len(r.done), r.claims)
	}
	won := winners[0]
	for _, a := range r.before {
		if a.Fence >= won.Fence {
			return fmt.Sprintf("won under fence %d, although fence %d was there before", won.Fence, a.Fence)
		}
	}
	for _, a := range r.claims {
		switch {
		case a.Fence != won.Fence && r.heldUp(a):
		case a.Fence != won.Fence:
			return fmt.Sprintf("racer %d was told of fence %d, although racer %d won under %d", a.Racer, a.Fence,
				won.Racer, won.Fence)
		case a == won || a.Verdict == "in flight":
		case a.Verdict != "done" || !atOnce(r.key) || a.Body != bodyOf(won):
			return fmt.Sprintf("racer %d was told %q with result %q", a.Racer, a.Verdict, a.Body)
		}
	}
	for _, a := range r.done {
		if a.Verdict != "done" || a.Fence != won.Fence || a.Body != bodyOf(won) {
			return fmt.Sprintf("racer %d has seen %q under fence %d with result %q in the end; the result of the "+
				"winner is %q", a.Racer, a.Verdict, a.Fence, a.Body, bodyOf(won))
		}
	}
	return ""
}

// heldUp reports whether a racer was told that an abandoned key is in flight, because the winner held its record for
// longer than a claim waits. Such an answer has the fence of the record as it was.
func (r round) heldUp(a answer) bool {
	return a.Verdict == "in flight" && stateOf(r.key) == "abandoned" && len(r.before) > 0 && a.Fence == r.before[0].Fence
}

// contended reports whether the winner's claim overlapped that of another racer.
func (r round) contended() bool {
	won := r.winners()[0]
	for _, a := range r.claims {
		if a.Racer != won.Racer && a.Began < won.Ended && a.Ended > won.Began {
			return true
		}
	}
	return false
}
