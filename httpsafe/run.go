package httpsafe

import (
	"context"
	"errors"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// requestWith returns the request for the handler. A body that was read in advance can be read again.
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

// run is the work that the guard protects: it calls the handler and records its response.
//
// An attempt with number 1 means that there is no record of the key. Only then the age of the key matters, or that of a
// delivery before, because a record would answer the request whatever the age.
func (x *exchange) run(_ context.Context, a *retrysafe.Attempt) (result retrysafe.Result, err error) {
	if a.Number() == 1 && (x.delivery == nil && x.m.isTooOld(x) || x.delivery != nil && x.m.mayHaveForgotten(x.delivery)) {
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
	if x.m.CompletedElsewhere {
		a.Control().CompletedElsewhere()
	}
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

func (x *exchange) handBack(r *http.Request) { handBack(x.r, r) }

// handBack shows outer layers what they would see if they had served the request themselves: pattern and form.
func handBack(outer, inner *http.Request) {
	outer.Pattern = inner.Pattern
	if outer.MultipartForm == nil {
		outer.MultipartForm = inner.MultipartForm // whose files net/http removes
	}
}

// afterPanic returns what a panic of the handler means for the key. A panic that ends the connection, or a key that is to
// be released, continues when the guard has returned. Any other continues at once, with its stack, and the guard abandons
// the key.
func (x *exchange) afterPanic(p any) error {
	x.recorder.abort()
	switch {
	case isAbort(p):
		x.panicked = p
		return retrysafe.Unknown(errCutOff)
	case x.m.Ambiguous == retrysafe.AmbiguousRelease:
		x.panicked = p
		return retrysafe.Retryable(errAborted)
	}
	panic(p) // from here, so that its stack is still there; the guard abandons the key
}

// isAbort reports whether a panic is the way in which net/http lets a handler end its connection.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// Errors of work whose response is sent but not stored.
var (
	errReleased = errors.New("httpsafe: the response is one that frees the key")
	errUnknown  = errors.New("httpsafe: the response leaves open what happened")
	errBusy     = errors.New("httpsafe: the response says that another attempt is in flight")
	errCutOff   = errors.New("httpsafe: the response broke off")
	errAborted  = errors.New("httpsafe: the handler panicked")
	errFreed    = errors.New("httpsafe: the outcome is unknown, and Options.Ambiguous frees the key")
)
