package httpsafe

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// exchange is one keyed request on its way through the guard. Exchanges are pooled: handlers never see one.
type exchange struct {
	m    *middleware
	work retrysafe.Work // run, bound once

	w        http.ResponseWriter
	r        *http.Request
	request  retrysafe.Request
	echo     field // the key's header as received
	prefer   preferences
	body     *memory // of the request; nil: it was not read in advance
	spooled  bool
	sum      [sha256.Size]byte // of what the body counts as
	outer    []field           // the header that others had set before the handler ran
	began    chan<- struct{}
	recorder *recorder // nil: the handler has not run
	panicked any
}

func newExchange(m *middleware) *exchange {
	x := &exchange{m: m}
	x.work = x.run
	return x
}

// reset forgets the request.
func (x *exchange) reset() {
	x.m.putMemory(x.body)
	clear(x.outer)
	*x = exchange{m: x.m, work: x.work, outer: x.outer[:0]}
}

// serve answers the request.
func (x *exchange) serve() {
	key, p := x.findKey()
	switch {
	case p != nil:
		x.m.refuse(x.w, *p)
		return
	case key == "":
		x.serveWithoutKey()
		return
	}
	if p := x.identify(key); p != nil {
		x.m.refuse(x.w, *p)
		return
	}
	if x.answerUnread() {
		return
	}
	if p := x.takeFingerprint(); p != nil {
		x.m.refuse(x.w, *p)
		return
	}
	x.prefer = x.m.preferencesOf(x.r)
	x.request.WaitAtMost = x.prefer.wait
	if x.prefer.async {
		x.serveAsync()
		return
	}
	x.do(x.r.Context())
}

// do asks the guard and answers.
func (x *exchange) do(ctx context.Context) {
	out, err := x.m.guard.Do(ctx, x.request, x.work)
	x.answer(out, err)
	if x.panicked != nil {
		panic(x.panicked) // for net/http, which logs it and ends the connection
	}
}

// findKey returns the request's key. Keys in headers are judged before the body is read.
func (x *exchange) findKey() (string, *Problem) {
	if x.m.headerOnly {
		return x.findHeaderKey()
	}
	if x.m.source.NeedsBody() {
		if p := x.spool(); p != nil {
			return "", p
		}
	}
	key, err := x.m.source.Key(x.r, x.bodyBytes())
	if err == nil && key != "" {
		err = x.m.syntax.checkValue(key)
	}
	if err != nil {
		p := x.m.keyMalformed(err)
		return "", &p
	}
	return key, nil
}

func (x *exchange) findHeaderKey() (string, *Problem) {
	key, found, err := x.m.headerKey(x.r)
	if err == nil {
		err = x.m.checkFirstSent(x.r)
	}
	if err != nil {
		p := x.m.keyMalformed(err)
		return "", &p
	}
	x.echo = found
	return key, nil
}

// identify makes the request's key.
func (x *exchange) identify(key string) *Problem {
	scope, err := x.m.scopeOf(x.r)
	if err != nil {
		p := problem(ScopeUnresolved)
		return &p
	}
	if x.m.quota != nil {
		if wait := x.m.quota(x.r, scope); wait > 0 {
			p := problem(KeyQuota)
			p.RetryAfter = wait
			return &p
		}
	}
	x.request.Key = retrysafe.Key{Scope: scope, ID: key}
	if err := x.request.Key.Validate(); err != nil {
		p := problem(ScopeUnresolved)
		return &p
	}
	return nil
}

// takeFingerprint reads the body and makes the request's fingerprint.
func (x *exchange) takeFingerprint() *Problem {
	if !x.m.fingerprint.needsBody() {
		return nil
	}
	if p := x.spool(); p != nil {
		return p
	}
	x.request.Fingerprint = x.m.fingerprint.of(x.r, x.bodyBytes(), &x.sum)
	return nil
}

// spool reads the request's body, once.
func (x *exchange) spool() *Problem {
	if x.spooled {
		return nil
	}
	x.body = x.m.getMemory()
	x.spooled = true
	return x.m.readBody(x.r, x.body)
}

func (x *exchange) bodyBytes() []byte {
	if x.body == nil {
		return nil
	}
	return x.body.body
}

func (x *exchange) serveWithoutKey() {
	if x.m.required {
		x.m.refuse(x.w, x.m.keyMissing())
		return
	}
	var body requestBody
	defer body.Close()
	x.m.next.ServeHTTP(x.w, x.requestWith(x.r.Context(), &body))
}

// requestWith returns the request for the handler, its body to be read again.
func (x *exchange) requestWith(ctx context.Context, body *requestBody) *http.Request {
	r := x.r.WithContext(ctx)
	if !x.spooled {
		return r
	}
	r.ContentLength, r.TransferEncoding = int64(len(x.body.body)), nil
	if r.ContentLength == 0 {
		r.Body = http.NoBody
		return r
	}
	body.rest = x.body.body
	r.Body = body
	return r
}

// run is the guarded work: it calls the handler.
func (x *exchange) run(_ context.Context, a *retrysafe.Attempt) (result retrysafe.Result, err error) {
	if a.Number() == 1 && x.m.isTooOld(x) {
		p := problem(KeyExpired)
		return retrysafe.Result{}, retrysafe.Retryable(&p)
	}
	for name, values := range x.w.Header() {
		x.outer = append(x.outer, field{name: name, values: values})
	}
	rec := &recorder{m: x.m, w: x.w, r: x.r, current: response{memory: x.m.getMemory()}}
	rec.ctx = handlerContext{a, rec}
	rec.checks = x.m.fingerprint.checksOf(x.r, &x.sum)
	x.recorder = rec
	x.begin()
	r := x.requestWith(&rec.ctx, &rec.request)
	defer func() {
		rec.request.Close()
		x.handBack(r)
		if p := recover(); p != nil {
			err = x.afterPanic(p)
		}
	}()
	x.m.next.ServeHTTP(rec, r)
	return rec.end()
}

// handBack tells those outside what they would see had they served the request themselves.
func (x *exchange) handBack(r *http.Request) {
	x.r.Pattern = r.Pattern
	if x.r.MultipartForm == nil {
		x.r.MultipartForm = r.MultipartForm // whose files net/http removes
	}
}

// afterPanic says what a handler's panic means for the key. Unless it is to be stored, the panic goes on only after the
// key has been dealt with.
func (x *exchange) afterPanic(p any) error {
	x.recorder.abort()
	switch {
	case p == http.ErrAbortHandler || x.m.ambiguous == AmbiguousUnknown:
		x.panicked = p
		return retrysafe.Unknown(errAborted)
	case x.m.ambiguous == AmbiguousRelease:
		x.panicked = p
		return retrysafe.Retryable(errAborted)
	}
	panic(p) // from here, so that its stack is still there; the guard saves that the work failed
}

// How work ends that is not stored.
var (
	errReleased = errors.New("httpsafe: the response says that nothing happened")
	errUnknown  = errors.New("httpsafe: the response leaves open what happened")
	errAborted  = errors.New("httpsafe: the handler panicked")
)
