package httpsafe

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// observedRequest is one request that is observed. Its handler runs in the goroutine of the request. Another goroutine
// runs look, which claims the key when the body has been read, and completes it when the handler has returned.
type observedRequest struct {
	b     *observer
	x     exchange // of a copy of the request; it only finds key, caller and fingerprint
	body  *observedBody
	bytes int64 // of memory, besides the body's

	outer    context.Context
	mu       sync.Mutex
	override retrysafe.Class // what the handler says of its outcome; 0: nothing

	ended  chan struct{} // closed when the handler has returned; the fields below are set before
	route  string
	status int
	err    error // how the handler's work ended

	ran bool // the key was claimed; it belongs to look
}

// findTimeout bounds how long finding the key and the caller of a request may take.
const findTimeout = 10 * time.Second

// copyBytes is about what the copy of a request takes besides the text of its header, and the goroutine.
const copyBytes = 8 << 10

// newObservedRequest starts to observe a request; nil if as much is observed as may be.
func newObservedRequest(b *observer, r *http.Request) *observedRequest {
	if !b.seen.enter() {
		return nil
	}
	s := &observedRequest{b: b, outer: r.Context(), ended: make(chan struct{}), bytes: copyBytes}
	for name, values := range r.Header {
		s.bytes += int64(len(name))
		for _, v := range values {
			s.bytes += int64(len(v))
		}
	}
	if !b.seen.grow(s.bytes) {
		b.seen.leave(0)
		return nil
	}
	s.x = exchange{m: b.middleware, r: r.Clone(context.WithoutCancel(r.Context())), spooled: true}
	s.x.r.Body = http.NoBody
	s.body = newObservedBody(s, r)
	go s.watch()
	return s
}

// serve calls the handler.
func (s *observedRequest) serve(w http.ResponseWriter, r *http.Request) {
	inner := r.WithContext(context.WithValue(r.Context(), recorderKey{}, s))
	if s.body.wanted() {
		s.body.outer, s.body.inner = r, inner
		inner.Body = s.body
	}
	status := statusOf(&w)
	returned := false
	defer func() {
		handBack(r, inner)
		r.Form, r.PostForm = inner.Form, inner.PostForm
		s.end(inner, status(), w.Header(), returned)
	}()
	s.b.next.ServeHTTP(w, inner)
	returned = true
}

// decide notes what the handler says of its outcome, and tells the middleware around this one.
func (s *observedRequest) decide(c retrysafe.Class) {
	s.mu.Lock()
	s.override = c
	s.mu.Unlock()
	_ = override(s.outer, c) // there may be none
}

// end notes how the handler ended, as a recorder would. status is 0 if it has written none, or has taken the connection
// over: then there was an answer all the same.
func (s *observedRequest) end(r *http.Request, status int, h http.Header, returned bool) {
	if status == 0 {
		status = http.StatusOK
	}
	p := response{memory: &memory{}}
	p.begin(status, h)
	s.mu.Lock()
	class := s.override
	s.mu.Unlock()
	switch c := s.b.config; {
	case returned:
		s.err = c.endOf(c.Ambiguous.Apply(c.classOf(&p, class)))
	case c.Ambiguous == retrysafe.AmbiguousRelease:
		s.err = retrysafe.Retryable(errAborted)
	default:
		s.err = retrysafe.Unknown(errCutOff)
	}
	s.route, s.status = s.b.routeOf(r), status
	s.body.end()
	close(s.ended)
}

// watch counts what look finds, when the handler has returned.
func (s *observedRequest) watch() {
	what := ObservedPanic
	defer func() {
		_ = recover() // of a function of the user; what says so
		<-s.ended
		s.b.seen.leave(s.bytes + s.body.bytes()) // before it is counted: then nothing of it is left
		counts := s.b.seen.route(s.route)
		if what > 0 {
			counts.observed[what].Add(1)
		}
	}()
	what = s.look()
}

// look finds the key and claims it. It follows exchange.serve.
func (s *observedRequest) look() Observed {
	x, c := &s.x, s.b.config
	if c.needsBody() {
		if what := s.takeBody(); what != 0 {
			return what
		}
	}
	if what := s.find(); what != 0 || x.isInside() {
		return what
	}
	if what := s.takeBody(); what != 0 {
		return what
	}
	c.fingerprint.compare(&x.compared, x.r, x.bodyBytes())
	s.body.sum(&x.compared)
	x.request.Fingerprint = c.fingerprint.of(&x.compared)
	return s.claim()
}

// find finds the key and its caller. The functions of the user that it calls get a context that ends: one that waits
// for ever would hold the place of a request for ever.
func (s *observedRequest) find() (what Observed) {
	x, c, r := &s.x, s.b.config, s.x.r
	ctx, stop := context.WithTimeout(r.Context(), findTimeout)
	x.r = r.WithContext(ctx)
	defer func() {
		if what != 0 && ctx.Err() != nil {
			what = ObservedPanic
		}
		x.r = r
		stop()
	}()
	if c.VerifyFunc != nil && c.VerifyFunc(x.r, x.bodyBytes()) != nil {
		return ObservedRefused
	}
	key, p := x.findKey()
	switch {
	case p == nil && key == "":
		return c.lacksKey()
	case p != nil || x.identify(key) != nil:
		return ObservedRefused
	}
	return 0
}

// takeBody waits until the handler has read the body.
func (s *observedRequest) takeBody() Observed {
	select {
	case <-s.body.whole:
	case <-s.ended:
	}
	kept, what := s.body.result()
	s.x.body = &memory{body: kept}
	return what
}

// claim runs as the work of an attempt while the handler runs, so that the Guard decides what the request is.
func (s *observedRequest) claim() Observed {
	seen, r := s.b.seen, s.x.request
	if !seen.mayAsk() {
		return ObservedStore
	}
	r.Key = observedKey(observedPrefix, s.x.request.Key)
	out, err := seen.guard.Do(context.Background(), r, s.work)
	seen.heard(out, err)
	what := s.judge(err)
	switch what {
	case ObservedRetry, ObservedConcurrent, ObservedMismatch, ObservedUnknown:
		s.reuse()
	}
	return what
}

// work is what an attempt waits for: the handler.
func (s *observedRequest) work(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
	s.ran = true
	s.b.seen.heard(retrysafe.Outcome{Stored: true}, nil) // others need not wait until the handler has returned
	if a.Number() == 1 && s.b.isTooOld(&s.x) {
		p := problem(retrysafe.SituationKeyTooOld)
		return retrysafe.Result{}, retrysafe.Retryable(&p)
	}
	<-s.ended
	return retrysafe.Result{Failed: s.status >= 400, Code: s.status, Omitted: true}, s.err
}

// judge returns what the Guard has found.
func (s *observedRequest) judge(err error) Observed {
	switch {
	case s.ran && errors.As(err, new(*Problem)):
		return ObservedRefused
	case s.ran && s.err != nil && !errors.Is(s.err, errUnknown) && !errors.Is(s.err, errCutOff):
		return ObservedFreed
	case s.ran:
		return ObservedFirst
	case err == nil, errors.Is(err, retrysafe.ErrNotReplayable):
		return ObservedRetry
	case errors.Is(err, retrysafe.ErrInFlight):
		return ObservedConcurrent
	case errors.Is(err, retrysafe.ErrMismatch):
		return ObservedMismatch
	case errors.Is(err, retrysafe.ErrAbandoned):
		return ObservedUnknown
	}
	return ObservedStore
}

// reuse counts a key that is used for the second time: the first request that claims it under another scope.
func (s *observedRequest) reuse() {
	first := false
	key := observedKey(reusedPrefix, s.x.request.Key)
	_, err := s.b.seen.guard.Do(context.Background(), retrysafe.Request{Key: key},
		func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			first = true
			return retrysafe.Result{}, nil
		})
	<-s.ended // which sets the route
	if err == nil && first {
		s.b.seen.route(s.route).reused.Add(1)
	}
}
