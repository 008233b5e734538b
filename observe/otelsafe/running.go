package otelsafe

import (
	"sync"

	"github.com/retrysafe/retrysafe"
	"go.opentelemetry.io/otel/trace"
)

// running holds the attempts that have started and not ended, so that each is counted once even if its end is
// reported twice.
type running struct {
	mu       sync.Mutex
	attempts map[attemptID]attempt
}

type attemptID struct {
	key   retrysafe.Key
	fence int64
}

type attempt struct {
	operation *operation
	span      trace.Span // in the key's trace
}

func (r *running) add(e retrysafe.Event, a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts == nil {
		r.attempts = map[attemptID]attempt{}
	}
	r.attempts[attemptID{e.Key, e.Fence}] = a
}

func (r *running) remove(e retrysafe.Event) (attempt, bool) {
	id := attemptID{e.Key, e.Fence}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.attempts[id]
	delete(r.attempts, id)
	return a, ok
}
