package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// phase is what the racers do next with the keys of a batch. No phase begins before all have ended the last one.
type phase string

const (
	prepare phase = "prepare" // one racer makes each key abandoned or released
	claim   phase = "claim"   // all claim; in half of the rounds the winner completes at once
	finish  phase = "finish"  // the other winners complete
	look    phase = "look"    // all claim again
)

// order tells the racers to do a phase with the keys First to First+Count-1.
type order struct {
	Phase        phase
	First, Count int
}

// answer is what a racer was told about a key.
type answer struct {
	Key, Racer   int
	Verdict      string
	Fence        int64
	Body         string
	Began, Ended int64 // of the claim, in microseconds
}

// stateOf is what a key is before the race for it.
func stateOf(key int) string { return []string{"new", "abandoned", "released"}[key/2%3] }

// atOnce reports whether the winner of a key completes without waiting for the other racers.
func atOnce(key int) bool { return key%2 == 0 }

// bodyOf is the result of the winner.
func bodyOf(won answer) string { return fmt.Sprintf("racer %d under fence %d", won.Racer, won.Fence) }

// raceLease is longer than any race.
const raceLease = time.Hour

func raceRetention() retrysafe.Retention {
	return retrysafe.Retention{Replay: raceLease, Key: raceLease, Audit: raceLease}
}

// runRacers follows orders until stdin is closed.
func (s Subject) runRacers(store retrysafe.Store, j job) error {
	var all []*racer
	for i := range j.Racers {
		all = append(all, &racer{Subject: s, store: store, number: j.From + i, leases: map[int]retrysafe.Lease{}})
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var o order
		if err := json.Unmarshal(line, &o); err != nil {
			return err
		}
		answers, err := follow(all, o)
		if err != nil {
			return err
		}
		text, err := json.Marshal(answers)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
			return err
		}
	}
}

// follow has each racer do the phase with all keys at once.
func follow(all []*racer, o order) ([]answer, error) {
	var mu sync.Mutex
	answers, failures := []answer{}, []error(nil)
	var done sync.WaitGroup
	for key := o.First; key < o.First+o.Count; key++ {
		for _, r := range all {
			done.Go(func() {
				a, err := r.do(o.Phase, key)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failures = append(failures, fmt.Errorf("%s: key %d: %w", o.Phase, key, err))
				} else if a.Verdict != "" {
					answers = append(answers, a)
				}
			})
		}
	}
	done.Wait()
	return answers, errors.Join(failures...)
}

// racer is one of those that claim the same key.
type racer struct {
	Subject
	store  retrysafe.Store
	number int

	mu     sync.Mutex
	leases map[int]retrysafe.Lease // of keys that it has to complete
}

func (r *racer) do(p phase, key int) (answer, error) {
	switch p {
	case prepare:
		return r.prepare(key)
	case claim:
		return r.race(key)
	case finish:
		return answer{}, r.finish(key)
	}
	a, _, err := r.claim(key)
	return a, err
}

func (r *racer) prepare(key int) (answer, error) {
	if key%racers != r.number || stateOf(key) == "new" {
		return answer{}, nil
	}
	a, l, err := r.claim(key)
	if err != nil {
		return a, err
	}
	return a, r.write(func(ctx context.Context) error {
		if stateOf(key) == "released" {
			return r.store.Release(ctx, l)
		}
		return r.store.Extend(ctx, l, 0)
	})
}

func (r *racer) race(key int) (answer, error) {
	a, l, err := r.claim(key)
	if err != nil || a.Verdict != "acquired" {
		return a, err
	}
	if atOnce(key) {
		return a, r.complete(l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[key] = l
	return a, nil
}

func (r *racer) finish(key int) error {
	r.mu.Lock()
	l, ok := r.leases[key]
	delete(r.leases, key)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	return r.complete(l)
}

func (r *racer) complete(l retrysafe.Lease) error {
	body := bodyOf(answer{Racer: r.number, Fence: l.Fence})
	return r.write(func(ctx context.Context) error {
		return r.store.Complete(ctx, l, retrysafe.Result{Body: []byte(body)}, raceRetention())
	})
}

func (r *racer) claim(key int) (a answer, l retrysafe.Lease, err error) {
	p := retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: "race", ID: strconv.Itoa(key)},
		Fingerprint: "raw1:race", Owner: retrysafe.NewOwner(), Lease: raceLease, TakeOver: true,
		Keep: raceRetention(),
	}
	a = answer{Key: key, Racer: r.number, Began: time.Now().UnixMicro()}
	err = r.retry(func(ctx context.Context) error {
		c, err := r.store.Claim(ctx, p)
		a.Verdict, a.Fence, a.Body, l = c.Verdict.String(), c.Record.Fence, string(c.Record.Result.Body), c.Lease
		return err
	})
	a.Ended = time.Now().UnixMicro()
	return a, l, err
}

// write makes a call under a lease. If the lease is lost, what the others are told shows that this is wrong.
func (r *racer) write(call func(context.Context) error) error {
	if err := r.retry(call); !errors.Is(err, retrysafe.ErrLeaseLost) {
		return err
	}
	return nil
}

// retry repeats a call whose outcome is unknown, with the same arguments.
func (r *racer) retry(call func(context.Context) error) (err error) {
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		err = call(ctx)
		cancel()
		if err == nil || !r.unsure(err) {
			return err
		}
	}
	return err
}
