//go:build linux

package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

// The histories of each store on a server stay linearizable while processes are killed and stopped, and the server is
// killed, paused and cut off. A history that is not is cut down to the answers that contradict each other, and drawn.
//
// SQLite and memory have no server. The clocks of processes that use DynamoDB may differ by a second, by which a record
// is kept without its answer, and which the judge does not know: stores/dynamostore tortures it with exact clocks.
//
// It is for make soak, where it takes half an hour. In make test, TestSoakTorture of each store judges such histories
// without faults of the server.
func TestSoakLinearizableUnderFaults(t *testing.T) {
	runs := soak.Times(t, 1)
	for _, store := range stores() {
		if runs == 1 || slices.Contains([]string{memory, sqlite, dynamo}, store) {
			continue
		}
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			for run := range 2 * runs { // in long histories of many lost answers, the judge finds too many orders
				t.Run(fmt.Sprint(run), func(t *testing.T) {
					t.Run("torture", func(t *testing.T) { // it is parallel to others, and its parent waits for it
						s := newStand(t, store, plain, "")
						subject, dice := tortured(store), rand.New(rand.NewPCG(rand.Uint64(), 0))
						subject.Harm = func() { s.disturb(dice) }
						subject.Place = s.text
						subject.Torture(t, 6)
					})
				})
			}
		})
	}
}

// text is the place of a worker, as JSON.
func (s *stand) text(t *testing.T) string {
	text, err := json.Marshal(s.at(s.others))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tortured is a store whose clients go on after any error: the server may be down.
func tortured(store string) torture.Subject {
	return torture.Subject{
		Name:    store,
		Unsure:  func(error) bool { return true },
		Repeats: true,
		Lease:   300 * time.Millisecond,
		Open: func(_ context.Context, text, _ string) (retrysafe.Store, error) {
			var p place
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				return nil, err
			}
			o, err := p.openPatiently()
			return o.store, err
		},
	}
}
