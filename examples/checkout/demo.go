package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/examples/internal/faults"
)

// demo places one order for each boundary, and kills the process that reaches it.
func demo() error {
	folder, err := os.MkdirTemp("", "checkout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	t, err := openCluster(folder, freeAddress)
	if err != nil {
		return err
	}
	defer t.close()
	fmt.Println(" #  killed at              reservations  charges  mails  answers    took")
	for i, boundary := range boundaries() {
		r, err := t.runOrder(context.Background(), fmt.Sprintf("order-%d", i+1), faults.Kill, boundary)
		if err != nil {
			return err
		}
		fmt.Printf("%2d  %-22s %12d %8d %6d  %-8s  %v\n", i+1, boundary,
			r.effects["stock"], r.effects["bank"], r.effects["mail"], r.sameAnswers(), r.took.Round(time.Millisecond))
	}
	return nil
}

// result is the result of an order.
type result struct {
	effects map[string]int // number of effects by service
	answers []string       // answers that the buyer got
	deaths  []string       // processes that died
	fired   []string       // boundaries at which the fault happened
	took    time.Duration
}

// runOrder places an order while a fault is armed at each of the boundaries, repeats the request at the end, and
// returns the result.
func (t *cluster) runOrder(ctx context.Context, number string, f faults.Fault, at ...string) (*result, error) {
	t.takeDeaths()
	for _, boundary := range at {
		if err := faults.Arm(t.faults, boundary, f); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := t.buy(ctx, number); err != nil {
		return nil, fmt.Errorf("the buyer of %s: %w", number, err)
	}
	r := &result{took: time.Since(began)}
	for _, boundary := range at {
		if faults.Fired(t.faults, boundary) {
			r.fired = append(r.fired, boundary)
		}
		faults.Forget(t.faults, boundary)
	}
	return r, t.inspect(ctx, number, r)
}

// inspect repeats the request of an order and reads its effects.
func (t *cluster) inspect(ctx context.Context, number string, r *result) (err error) {
	if err := t.buy(ctx, number, "--again"); err != nil {
		return err
	}
	if r.answers, err = t.answers(number); err != nil {
		return err
	}
	r.effects, err = t.effects(ctx, number)
	r.deaths = t.takeDeaths()
	return err
}

// sameAnswers reports whether all answers are equal, byte for byte.
func (r *result) sameAnswers() string {
	if slices.ContainsFunc(r.answers, func(a string) bool { return a != r.answers[0] }) {
		return "differ"
	}
	return fmt.Sprintf("%d equal", len(r.answers))
}
