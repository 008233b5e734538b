package retrysafetest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Subject describes a guarded handler to Check. All fields but KeyOptional are required.
type Subject struct {
	// Guard that the handler's middleware was made with. Its store is a Store of this package.
	Guard *retrysafe.Guard
	// Handler as it is served: with the middleware, and with what stands around it, such as authentication.
	Handler http.Handler
	// NewRequest returns a request that succeeds, made by httptest.NewRequest, with key where the handler looks for it.
	// Two requests for one key are equal. Check calls it in the test's goroutine.
	NewRequest func(key string) *http.Request
	// Effects counts what must happen once for each key: charges, orders, mails. Check takes differences.
	Effects func() int
	// KeyOptional says that requests without a key are meant to be served, without protection.
	KeyOptional bool
}

// atOnce is how many requests with one key Check sends at once.
const atOnce = 10

// Check sends requests to a guarded handler and fails the test if a retry could do harm, in this order:
//
//   - a request with a new key has one effect
//   - the same request, sent three times more, has none, and is answered the same: status, body, Content-Type, Location
//   - ten at once with one key have one effect, and the same answer (or are refused as in flight, where the policy is
//     Reject)
//   - a request without a key is refused
//   - killed at each place where a process may die (Store.KillAt), and sent again: no second effect. The retry gets the
//     answer, or a refusal where the policy for abandoned keys is Refuse or Reconcile
//   - paused at each of these places until the lease is lost and a retry was answered (Store.PauseAt): no second effect
//
// It stops at the first check that fails, and names the usual causes. It calls the handler in process, and
// never sleeps. It uses random keys, so that it may be called again with the same Store.
func Check(t testing.TB, s Subject) {
	t.Helper()
	c := &checker{TB: t, Subject: s}
	if !c.complete() {
		return
	}
	c.run(c.first, c.retries, c.atOnce, c.withoutKey, c.killed, c.paused)
}

func (c *checker) run(checks ...func() (fault string)) {
	c.Helper()
	for _, check := range checks {
		if fault := check(); fault != "" {
			c.Error("retrysafetest: " + fault)
			return
		}
	}
}

// checker checks one subject.
type checker struct {
	testing.TB
	Subject
	store *Store
}

// complete reports whether all required fields are set, and fails the test if not.
func (c *checker) complete() bool {
	c.Helper()
	if c.Guard == nil || c.Handler == nil || c.NewRequest == nil || c.Effects == nil {
		c.Error("retrysafetest: Subject needs Guard, Handler, NewRequest and Effects")
		return false
	}
	s, ok := retrysafe.As[*Store](c.Guard.Store())
	if c.store = s; !ok {
		c.Errorf("retrysafetest: the Guard's store is a %T; make it with retrysafetest.NewStore", c.Guard.Store())
	}
	return ok
}

// answer is the response to a request, or the reason why there is none.
type answer struct {
	status int
	header http.Header
	body   []byte
	broken string // why there is no answer; empty: there is one
}

func (a answer) ok() bool { return a.broken == "" && a.status < http.StatusBadRequest }

// String shows an answer in a failure.
func (a answer) String() string {
	if a.broken != "" {
		return a.broken
	}
	const shown = 200
	return fmt.Sprintf("%d %q", a.status, a.body[:min(len(a.body), shown)])
}

// differs describes how b differs from a in the parts that a client acts on; empty if it does not.
func (a answer) differs(b answer) string {
	if a.broken != b.broken || a.status != b.status || !bytes.Equal(a.body, b.body) {
		return fmt.Sprintf("%v, then %v", a, b)
	}
	for _, name := range []string{"Content-Type", "Location"} {
		if v, w := a.header.Get(name), b.header.Get(name); v != w {
			return fmt.Sprintf("%s %q, then %q", name, v, w)
		}
	}
	return ""
}

// request returns a request with the key, or without one if it is empty.
func (c *checker) request(key string) *http.Request {
	r := c.NewRequest(key)
	for name, values := range r.Header {
		if key == "" && len(values) == 1 && (values[0] == "" || values[0] == `""`) {
			delete(r.Header, name) // a missing header is meant, not an empty one
		}
	}
	return r
}

// send has the handler answer a request.
func (c *checker) send(r *http.Request) (a answer) {
	a.broken = "no answer" // if the goroutine is ended
	defer func() {
		if p := recover(); p != nil {
			a.broken = fmt.Sprintf("no answer: the handler panicked: %v", p)
		}
	}()
	w := httptest.NewRecorder()
	c.Handler.ServeHTTP(w, r)
	return answer{status: w.Code, header: w.Result().Header, body: w.Body.Bytes()}
}

func (c *checker) post(key string) answer { return c.send(c.request(key)) }

// postAtOnce sends n requests with one key, and lets none of their attempts end before all have asked the store.
func (c *checker) postAtOnce(key string, n int) []answer {
	defer c.store.overlap(n)()
	answers, all := make([]answer, n), sync.WaitGroup{}
	for i := range answers {
		r := c.request(key)
		all.Go(func() { answers[i] = c.send(r) })
	}
	all.Wait()
	return answers
}

// newKey has the form of a UUID, which every profile takes.
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
