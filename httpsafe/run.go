package httpsafe

import (
	"context"
	"errors"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

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
		p := problem(retrysafe.SituationKeyTooOld)
		return retrysafe.Result{}, retrysafe.Retryable(&p)
	}
	for name, values := range x.w.Header() {
		x.outer = append(x.outer, field{name: name, values: values})
	}
	rec := &recorder{m: x.m, w: x.w, r: x.r, account: &x.account, current: response{memory: x.m.getMemory()}}
	rec.ctx = handlerContext{a, rec}
	rec.echo = x.echo
	rec.checks = x.m.fingerprint.checksOf(&x.compared)
	x.recorder = rec
	x.begin()
	r := x.requestWith(&rec.ctx, &rec.request)
	defer func() {
		rec.request.end()
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

// afterPanic says what a handler's panic means for the key. To release it, the panic goes on only after that.
func (x *exchange) afterPanic(p any) error {
	x.recorder.abort()
	if x.m.Ambiguous == retrysafe.AmbiguousRelease && !isAbort(p) {
		x.panicked = p
		return retrysafe.Retryable(errAborted)
	}
	panic(p) // from here, so that its stack is still there; the guard abandons the key
}

// isAbort reports whether a panic is net/http's way of ending a connection.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// How work ends that is not stored.
var (
	errReleased = errors.New("httpsafe: the response says that nothing happened")
	errUnknown  = errors.New("httpsafe: the response leaves open what happened")
	errBusy     = errors.New("httpsafe: the response says that another attempt is in flight")
	errAborted  = errors.New("httpsafe: the handler panicked")
	errFreed    = errors.New("httpsafe: the outcome is unknown, and Options.Ambiguous frees the key")
)
