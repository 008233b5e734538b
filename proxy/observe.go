package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Observer is told when a request with a key is forwarded, and, after it was answered, what became of it. It is called
// by many goroutines at once and must not block.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// TraceFunc is called when a request that seems to have a key has found its route, before its caller is identified. It
// may change the header of r, which is what the upstream gets; the Traceparent is saved with the answer too. end is
// called once with what became of the request. Its Kind is 0 without a Refusal if the request had no key and was
// forwarded.
type TraceFunc func(r *http.Request) (end func(Event))

// Event is what became of one request that came with a key, or that was refused for want of one. It holds neither the
// key nor anything else that the client sent, apart from the method, the path, and the scope if that is a header's
// value.
type Event struct {
	// Begun says that an attempt begins, and nothing became of it yet. If the process is killed, this is the last event of
	// the request. Status, Took and Err are zero.
	Begun bool
	// Accepted says that the route's Inbox has the request: a new one, or one that it had before (Known). Kind is 0 then.
	Accepted, Known bool
	// Kind is that of the Guard's last event about the request. 0: it was refused before a key was found.
	Kind   retrysafe.EventKind
	Method string
	// Path is that of the request, without the query, and without the key: "{key}" is in its place, and the path of the
	// route's pattern is in the place of one that a natural key is made of. A long one is cut off.
	Path string
	// Route is the pattern that matched; empty for the default route.
	Route string
	// Status of the answer; 0 if the connection was cut or given up.
	Status int
	// Key is zero if there was none.
	Key retrysafe.Digest
	// Scope is that of the key, or that of the caller if there was no key; empty if all callers share one, or if the
	// caller is unknown.
	Scope   string
	Attempt int
	// Took is the time from the request's arrival to the end of its answer.
	Took time.Duration
	// Refusal is the slug of the problem with which the request was refused; empty if it was forwarded or replayed.
	Refusal httpsafe.Slug
	// Traceparent is, for a replay, that header of the request that ran; empty if it had none.
	Traceparent string
	// Err is why the caller is unknown, or why neither the upstream nor AuthURL gave an answer, or else the error of the
	// Guard's last event.
	Err error
}

// logEvents adds the Guard's events to the log entry of the request that they are about.
func logEvents(ctx context.Context, e retrysafe.Event) {
	entry := logEntryOf(ctx)
	if entry == nil {
		return
	}
	entry.add(e)
	if (e.Kind == retrysafe.AttemptStarted || e.Kind == retrysafe.AttemptResumed) && entry.route.observer != nil {
		entry.route.observer.Observe(ctx, Event{
			Begun: true, Kind: e.Kind, Method: entry.holder.request.Method, Path: entry.route.pathOf(&entry.holder.request, e.Key),
			Route: entry.route.pattern, Key: e.Key.Digest(), Scope: e.Key.Scope, Attempt: e.Attempt,
		})
	}
}

// maxPath is the longest path of an Event in bytes.
const maxPath = 200

// pathOf returns the path of a request for its Event.
func (h *routeHandler) pathOf(r *http.Request, k retrysafe.Key) string {
	if natural, ok := h.options.KeySource.(httpsafe.NaturalKey); ok && len(natural.PathValues) > 0 {
		return h.pattern[strings.IndexByte(h.pattern, '/'):]
	}
	keys := []string{k.ID}
	for _, name := range h.rules.Headers {
		for _, value := range r.Header[name] {
			keys = append(keys, strings.Trim(value, `" `))
		}
	}
	path := r.URL.Path
	for _, key := range keys {
		if key != "" {
			path = strings.ReplaceAll(path, key, "{key}")
		}
	}
	if len(path) > maxPath {
		path = path[:maxPath] + "…"
	}
	return path
}

// logEntry collects what becomes of one request that seems to have a key, for its Event. It is the context of that
// request, and holds what else such a request needs, so that all of it takes one allocation.
type logEntry struct {
	context.Context // the request's

	watch   watch
	fetched fetchedBody
	patient patientWriter
	holder  *holder
	route   *routeHandler
	caller  string // the key's; empty: unknown, or all callers share one scope
	charged bool   // to the caller's quota of keys

	mu      sync.Mutex // events of saves in the background come from other goroutines
	last    retrysafe.Event
	attempt int
	inbox   struct {
		accepted, known bool
		key             retrysafe.Key
	}
	passed  bool  // the request has reached the forwarder
	failure error // why the caller is unknown, or another server gave no answer
}

type logEntryKey struct{}

// logEntryOf returns the log entry of a request; nil if it has none.
func logEntryOf(ctx context.Context) *logEntry {
	entry, _ := ctx.Value(logEntryKey{}).(*logEntry)
	return entry
}

// Value implements context.Context.
func (entry *logEntry) Value(key any) any {
	if _, ok := key.(logEntryKey); ok {
		return entry
	}
	return entry.Context.Value(key)
}

// add notes an event of the Guard.
func (entry *logEntry) add(e retrysafe.Event) {
	entry.mu.Lock()
	defer entry.mu.Unlock()
	switch e.Kind {
	case retrysafe.SweepEnded, retrysafe.FingerprintIncomparable:
		return
	}
	entry.last = e
	entry.attempt = max(entry.attempt, e.Attempt)
}

// begin prepares the entry for an attempt, which may not be the first.
func (entry *logEntry) begin(ctx context.Context, w http.ResponseWriter) {
	entry.watch, entry.fetched = watch{base: ctx}, fetchedBody{}
	entry.patient = patientWriter{ResponseWriter: w}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	entry.failure = nil
}

// pass notes that the request has reached the forwarder.
func (entry *logEntry) pass() {
	entry.mu.Lock()
	defer entry.mu.Unlock()
	entry.passed = true
}

// accept notes what the inbox has done with the request.
func (entry *logEntry) accept(k retrysafe.Key, fresh bool, err error) {
	entry.mu.Lock()
	defer entry.mu.Unlock()
	entry.inbox.accepted, entry.inbox.known, entry.inbox.key = err == nil, err == nil && !fresh, k
	if p := new(httpsafe.Problem); err != nil && !errors.As(err, &p) {
		entry.failure = err
	}
}

// fail notes why the caller is unknown, or why another server gave no answer. The entry may be nil.
func (entry *logEntry) fail(err error) {
	if entry == nil {
		return
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	entry.failure = withoutContent(err)
}

// withoutContent cuts off what an error of net/http quotes of an answer, which may repeat a key or contain a secret.
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

// kind returns the kind of the request's Event.
func (entry *logEntry) kind() retrysafe.EventKind {
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if entry.inbox.accepted {
		return 0
	}
	return entry.last.Kind
}

// event returns what became of the request; ok is false for a request that had no key and was forwarded.
func (entry *logEntry) event(r *http.Request, route string, began time.Time) (_ Event, ok bool) {
	entry.mu.Lock()
	defer entry.mu.Unlock()
	e := Event{
		Kind:    entry.last.Kind,
		Method:  r.Method,
		Path:    entry.route.pathOf(r, entry.last.Key),
		Route:   route,
		Status:  entry.holder.status,
		Attempt: entry.attempt,
		Took:    time.Since(began),
		Refusal: entry.holder.refusal,
		Err:     entry.last.Err,
		Scope:   entry.caller,

		Traceparent: entry.holder.replays,
	}
	if entry.failure != nil {
		e.Err = entry.failure
	}
	if entry.inbox.accepted {
		e.Accepted, e.Known = true, entry.inbox.known
		e.Kind, e.Key, e.Scope = 0, entry.inbox.key.Digest(), entry.inbox.key.Scope
	}
	if e.Kind != 0 {
		e.Key, e.Scope = entry.last.Key.Digest(), entry.last.Key.Scope
	}
	return e, !entry.passed || e.Kind != 0
}
