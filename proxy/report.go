package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Report is what became of one request that came with a key, or that was refused for want of one. It holds neither the
// key nor anything else that the client sent, apart from the method.
type Report struct {
	Method string
	// Route is the pattern that matched; empty for the default route.
	Route string
	// Status of the answer; 0 if the connection was cut or given up.
	Status int
	// Event that decided: what the guard told its Observer last. 0: refused before a key was found.
	Event retrysafe.EventKind
	// Key is zero if there was none.
	Key     retrysafe.Digest
	Attempt int
	Took    time.Duration
	// Err is why there was no answer of the upstream or of AuthURL, or else what the event told of.
	Err error
}

// Observer returns the Observer that the proxy's Guard needs, so that Reports can tell what happened. Everything goes
// on to next, unless that is nil.
func Observer(next retrysafe.Observer) retrysafe.Observer {
	return retrysafe.ObserverFunc(func(ctx context.Context, e retrysafe.Event) {
		if s, ok := ctx.Value(storyKey{}).(*story); ok {
			s.add(e)
		}
		if next != nil {
			next.Observe(ctx, e)
		}
	})
}

// story collects what happens to one request that seems to have a key, and is that request's context. What else goes with
// such a request is in it too, to be allocated at once.
type story struct {
	context.Context // the request's

	watch   watch
	fetched fetchedBody
	patient patientWriter
	holder  *holder
	caller  string // whose key it is; empty: not known, or everybody's
	charged bool   // to the caller's quota of keys

	mu      sync.Mutex // what is saved late is told late, by other goroutines
	last    retrysafe.Event
	attempt int
	passed  bool  // the request reached the upstream's forwarder
	failure error // why another server gave no answer
}

type storyKey struct{}

func storyOf(ctx context.Context) *story {
	s, _ := ctx.Value(storyKey{}).(*story)
	return s
}

// Value implements context.Context.
func (s *story) Value(key any) any {
	if _, ok := key.(storyKey); ok {
		return s
	}
	return s.Context.Value(key)
}

func (s *story) add(e retrysafe.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case retrysafe.SweepEnded, retrysafe.FingerprintIncomparable:
		return
	}
	s.last = e
	s.attempt = max(s.attempt, e.Attempt)
}

func (s *story) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = true
}

// fail notes why another server gave no answer. s may be nil.
func (s *story) fail(err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = withoutContent(err)
}

// withoutContent cuts off what an error of net/http quotes of an answer, which may repeat a key or hold a secret.
func withoutContent(err error) error {
	text, cut := err.Error(), -1
	for _, before := range []string{`"`, "malformed MIME header"} {
		if i := strings.Index(text, before); i >= 0 && (cut < 0 || i < cut) {
			cut = i
		}
	}
	if cut < 0 {
		return err
	}
	return errors.New(strings.TrimSpace(text[:cut]) + " …")
}

// report tells the story, unless it is that of a request without a key.
func (s *story) report(r *http.Request, route string, began time.Time) (Report, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passed && s.last.Kind == 0 {
		return Report{}, false
	}
	told := Report{
		Method:  r.Method,
		Route:   route,
		Status:  s.holder.status,
		Event:   s.last.Kind,
		Attempt: s.attempt,
		Took:    time.Since(began),
		Err:     s.last.Err,
	}
	if s.failure != nil {
		told.Err = s.failure
	}
	if s.last.Kind != 0 {
		told.Key = s.last.Key.Digest()
	}
	return told, true
}
