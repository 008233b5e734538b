package httpsafe

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/lazyctx"
	"github.com/retrysafe/retrysafe/internal/tagplace"
)

// exchange is one keyed request on its way through the guard. Exchanges are pooled to save allocations, so no
// reference to one is given to a handler, which could use it after it has returned.
type exchange struct {
	m    *middleware
	work retrysafe.Work // run, bound once

	w        http.ResponseWriter
	r        *http.Request
	request  retrysafe.Request
	echo     field // the header field with the key, as received
	prefer   preferences
	account  account
	body     *memory // of the request; nil: it was not read in advance
	spooled  bool
	compared compared
	outer    []field // response header fields that outer layers had set before the handler ran
	began    chan<- struct{}
	delivery *Delivery // nil: the request comes from its client
	recorder *recorder // nil: the handler has not run
	panicked any
}

// newExchange returns an exchange for requests to m.
func newExchange(m *middleware) *exchange {
	x := &exchange{m: m}
	x.work = x.run
	return x
}

// reset prepares the exchange for the next request.
func (x *exchange) reset() {
	x.m.putMemory(x.body)
	clear(x.outer)
	*x = exchange{m: x.m, work: x.work, outer: x.outer[:0]}
}

// serve answers the request. Each step can end it: the signature, the key, the caller, the quota, the body. Only then the
// guard is asked.
func (x *exchange) serve() {
	defer x.account.release() // also after a panic
	if x.delivery = DeliveryFrom(x.r.Context()); x.delivery != nil {
		x.doDelivered()
		return
	}
	if x.isRefusedUnverified() {
		return
	}
	if len(x.m.Profile.EchoFields) > 0 { // a refusal needs them too
		if p := x.spool(); p != nil {
			x.writeProblem(*p)
			return
		}
	}
	key, p := x.findKey()
	switch {
	case p != nil:
		x.writeProblem(*p)
		return
	case key == "" && x.m.Required:
		x.writeProblem(x.m.keyMissing())
		return
	case key == "":
		x.pass()
		return
	}
	if p := x.identify(key); p != nil {
		x.writeProblem(*p)
		return
	}
	if x.isInside() {
		x.pass()
		return
	}
	if x.refusedByQuota() || x.answerUnread() {
		return
	}
	if p := x.takeFingerprint(); p != nil {
		x.writeProblem(*p)
		return
	}
	x.prefer = x.m.preferencesOf(x.r)
	if x.m.Inbox != nil {
		x.acceptIntoInbox()
		return
	}
	x.request.WaitAtMost = x.prefer.wait
	if x.prefer.async {
		x.serveAsync()
		return
	}
	x.do(x.r.Context())
}

// doDelivered serves a request that an Inbox has accepted. Its key and its caller were found then.
func (x *exchange) doDelivered() {
	x.request.Key = x.delivery.Key
	if p := x.takeFingerprint(); p != nil {
		x.writeProblem(*p)
		return
	}
	x.do(x.r.Context())
}

// do asks the guard and answers. A panic of the handler continues when the guard has recorded it.
//
// ctx ends when the client has closed its connection, and also when it has only closed its sending half and still
// reads. Either way the request has arrived: it is claimed and runs, but does not wait for another attempt. To stop in
// the middle of a claim would also leave the key taken by nobody until that is undone.
func (x *exchange) do(ctx context.Context) {
	x.request.WaitContext = ctx
	claims := &lazyctx.Detached{Values: ctx}
	out, err := x.m.guard.Do(claims, x.request, x.work)
	for n := 1; n < x.m.Attempts && errors.Is(err, errFreed) && x.runAgain(ctx, n); n++ {
		out, err = x.m.guard.Do(claims, x.request, x.work)
	}
	if x.delivery != nil {
		x.delivery.Advice = x.m.guard.ExplainOutcome(out, err)
		if p := new(Problem); errors.As(err, &p) {
			x.delivery.Advice = retrysafe.SituationKeyTooOld.Advice()
		}
		switch a := x.delivery.Advice; {
		case err == nil:
			x.delivery.Status = replayStatus(out.Result)
		case a.Situation == retrysafe.SituationNotReplayable: // of whose answer the status is kept
			x.delivery.Status = replayStatus(a.Record.Result)
		}
	}
	x.answer(out, err)
	if x.panicked != nil {
		panic(x.panicked) // for net/http, which logs it and ends the connection
	}
}

// firstAgain is the pause before a request's second attempt.
const firstAgain = 100 * time.Millisecond

// runAgain prepares the exchange for another attempt, after a pause that doubles up to 1.6 s. The key was released, so
// that nothing of the attempt before can count any more. It returns false if the client has left meanwhile, unless it was
// answered with 202: then ctx has ended with that answer, and the client asks for the status.
func (x *exchange) runAgain(ctx context.Context, n int) bool {
	pause := time.NewTimer(firstAgain << min(n-1, 4))
	defer pause.Stop()
	left := ctx.Done()
	if isDetached(x.w) {
		left = nil
	}
	select {
	case <-pause.C:
	case <-left:
		return false
	}
	x.takeBack()
	x.recorder, x.outer = nil, x.outer[:0]
	return true
}

// findKey returns the key of the request; "" if it has none. Keys in headers are checked before the body is read.
func (x *exchange) findKey() (string, *Problem) {
	if x.m.KeySource == nil {
		return x.findHeaderKey()
	}
	if x.m.KeySource.NeedsBody() {
		if p := x.spool(); p != nil {
			return "", p
		}
	}
	key, err := x.m.KeySource.Key(x.r, x.bodyBytes())
	if err == nil && key != "" {
		key, err = x.m.Profile.KeySyntax.Parse(key)
	}
	if err != nil {
		p := x.m.keyMalformed(err)
		return "", &p
	}
	return key, nil
}

// findHeaderKey returns the key in the header, and remembers the field so that the answer can echo it.
func (x *exchange) findHeaderKey() (string, *Problem) {
	key, found, err := x.m.headerKey(x.r)
	switch {
	case err != nil:
	case found.name != "":
		err = x.m.checkFirstSent(x.r)
	case x.m.hasFirstSent(x.r):
		err = &httpkey.Error{Reason: httpkey.ReasonFormat}
	}
	if err != nil {
		p := x.m.keyMalformed(err)
		return "", &p
	}
	x.echo = found
	return key, nil
}

// identify builds the full key: the scope of the caller, and the ID that the request has sent.
func (x *exchange) identify(key string) *Problem {
	scope, err := x.m.scopeOf(x.r)
	if err != nil {
		return scopeUnresolved(err)
	}
	x.request.Key = retrysafe.Key{Scope: scope, ID: key}
	if err := x.request.Key.Validate(); err != nil {
		return scopeUnresolved(err)
	}
	return nil
}

// isInside reports whether the request already belongs to an attempt at its own key, because the middleware is
// installed twice on its way. Claiming the key again would make it wait for itself.
func (x *exchange) isInside() bool {
	a, ok := retrysafe.AttemptFrom(x.r.Context())
	return ok && a.Key() == x.request.Key
}

// refusedByQuota refuses a new key of a caller that has used up its quota; a known key gets its answer. It reports
// whether it has answered.
func (x *exchange) refusedByQuota() bool {
	if x.m.QuotaFunc == nil {
		return false
	}
	wait := x.m.QuotaFunc(x.r, x.request.Key.Scope)
	if wait <= 0 {
		return false
	}
	a, refused := x.m.guard.ExplainQuota(context.WithoutCancel(x.r.Context()), x.request.Key, wait)
	if refused && x.m.Inbox != nil { // a request that waits there has no record, and is going to be executed
		ctx, stop := asking(x.r.Context())
		defer stop()
		switch _, waits, err := x.m.Inbox.Waiting(ctx, x.request.Key.Digest()); {
		case err != nil:
			a.Executed = retrysafe.ExecutedUnknown
		case waits:
			return false
		}
	}
	if refused {
		x.advise(a, 0)
	}
	return refused
}

// lookUp returns the record of the key without claiming it; a zero one if there is none.
func (x *exchange) lookUp(ctx context.Context) (retrysafe.Record, error) {
	inspector, ok := retrysafe.As[retrysafe.Inspector](x.m.guard.Store())
	if !ok {
		return retrysafe.Record{}, errors.ErrUnsupported
	}
	records, err := inspector.Inspect(ctx, x.request.Key.Digest())
	if err != nil || len(records) == 0 {
		return retrysafe.Record{}, err
	}
	return records[0], nil
}

// takeFingerprint computes the fingerprint of the request. It reads the body unless the handler is to stream it.
func (x *exchange) takeFingerprint() *Problem {
	if !x.m.fingerprint.streams || x.m.Attempts > 1 {
		if p := x.spool(); p != nil {
			return p
		}
	}
	x.m.fingerprint.compare(&x.compared, x.r, x.bodyBytes())
	x.request.Fingerprint = x.m.fingerprint.of(&x.compared)
	x.request.Tags = tagplace.Read(x.m.Tags, func(p TagPlace) string { return p.Value(x.r, x.bodyBytes()) })
	return nil
}

// spool reads the whole body of the request into memory. The second call does nothing.
func (x *exchange) spool() *Problem {
	if x.spooled {
		return nil
	}
	x.body = x.m.getMemory()
	x.spooled = true
	return x.m.readBody(x.r, x.body, &x.account)
}

// writeProblem refuses the request.
func (x *exchange) writeProblem(p Problem) { x.m.writeProblem(x.w, p, x.bodyBytes()) }

// bodyBytes returns what spool has read; nil if the body was not read.
func (x *exchange) bodyBytes() []byte {
	if x.body == nil {
		return nil
	}
	return x.body.body
}

// pass lets the handler answer without a key.
func (x *exchange) pass() {
	var body requestBody
	r := x.requestWith(x.r.Context(), &body)
	defer x.handBack(r)
	defer body.end()
	x.m.next.ServeHTTP(x.w, r)
}
