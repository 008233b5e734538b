package httpsafe

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/retrysafe/retrysafe"
)

// fate is what has become of the key after the handler has written its response.
type fate uint8

const (
	kept      fate = iota // the response is the answer to every retry
	released              // free again: nothing happened
	busy                  // free again: another layer answered that an attempt is in flight
	freed                 // free again, although the outcome is unknown
	abandoned             // the outcome is unknown
)

// fateOf returns the fate of the key, by how the work ended. If the key was abandoned, that counts more than what the
// handler said: the outcome may be unknown for another reason. If the service that does the work could no longer complete
// the key, nothing happened.
func (x *exchange) fateOf(err error) fate {
	switch {
	case errors.Is(err, retrysafe.ErrAbandoned):
		return abandoned
	case x.releasedElsewhere(err):
		return released
	case errors.Is(err, errReleased):
		return released
	case errors.Is(err, errBusy):
		return busy
	case errors.Is(err, errFreed):
		return freed
	}
	return kept
}

// appendStatus appends the Idempotency-Status of a response that the handler has just written.
func (c *config) appendStatus(b []byte, out retrysafe.Outcome, f fate) []byte {
	switch {
	case f == abandoned:
		return append(b, c.unknownStatus()...)
	case f == released:
		return append(b, "released"...)
	case f == busy: // not "released": the attempt in flight may have an effect
		return append(b, "in-flight"...)
	case f == freed:
		return append(b, "unknown; retry"...)
	case out.Unprotected:
		return append(b, "ignored"...)
	case !out.Stored:
		return append(b, "executed; stored=?0"...)
	}
	return appendExpiry(appendExecuted(b, out.Attempt, out.CompletedElsewhere && out.Result.Omitted), out.ReplayLeft)
}

func appendExecuted(b []byte, attempt int, bodyMissing bool) []byte {
	b = append(b, "executed"...)
	if attempt > 1 {
		b = strconv.AppendInt(append(b, "; attempt="...), int64(attempt), 10)
	}
	if bodyMissing {
		b = append(b, "; body=?0"...)
	}
	return b
}

// deliver sends what the handler has written.
func (x *exchange) deliver(out retrysafe.Outcome, err error) {
	rec := x.recorder
	rec.mu.Lock()
	defer rec.mu.Unlock()
	before := rec.state
	rec.state = ended
	p := &rec.current
	if rec.isSaved() {
		p = &rec.sealed
	}
	if p.omitted && x.m.CompletedElsewhere { // nothing of the body was kept, so that the client gets none, as retries do
		p.length, out.CompletedElsewhere = -1, true
	}
	if before == recording {
		var buf [96]byte
		f := x.fateOf(err)
		unsaved := f == kept && !out.Stored && !out.Unprotected
		rec.send(p, x.m.appendStatus(buf[:0], out, f), f, unsaved)
	}
	if !rec.ctx.Control().SaveFailed() { // else the store may still read from this memory
		x.m.putMemory(rec.current.memory)
	}
	rec.current.memory, rec.sealed.memory = nil, nil
}

// deliverStored sends the response that another process has stored for this attempt. What the handler has written is
// discarded, except for those fields of the same response that are never stored, such as Set-Cookie.
func (x *exchange) deliverStored(out retrysafe.Outcome) {
	written := x.recorder.current
	if written.status >= 400 && x.recorder.override == 0 && !out.Result.Failed {
		x.recorder.ctx.Control().Discarded(fmt.Errorf("the answer %d came after the key had been completed with %d",
			written.status, out.Result.Code))
	}
	x.takeBack() // always possible, because nothing was streamed
	h := x.w.Header()
	if connection := written.get("Connection"); written.status == out.Result.Code {
		for _, f := range written.fields {
			name := http.CanonicalHeaderKey(f.name)
			if !f.trailer && !isHopByHop(name) && !isNominated(name, connection) && !x.m.fields.stores(f.name, connection) {
				h[f.name] = f.values
			}
		}
	}
	if n := len(out.Result.Body); n > uncounted && x.account.take(n) != nil { // a retry gets it
		x.adviseOn(retrysafe.ErrInFlight, retrysafe.Record{Key: x.request.Key, Attempt: out.Attempt})
		return
	}
	x.m.setEcho(h, x.echo)
	x.m.writeStored(x.w, x.r, out, nil)
}

// releasedElsewhere reports whether the key of work that is completed elsewhere is free: nothing has happened.
func (x *exchange) releasedElsewhere(err error) bool {
	return x.m.CompletedElsewhere && err != nil && !errors.Is(err, errBusy) &&
		x.m.guard.Explain(err).Situation == retrysafe.SituationReleased
}

// retryAdvice returns the RetryHeader of a response that the handler has written; "" if there is nothing to say.
func (c *config) retryAdvice(status int, f fate) string {
	switch {
	case c.Profile.RetryHeader == "" || status < 500 || f == released:
		return ""
	case f == freed, f == abandoned && c.resumes:
		return "true"
	}
	return "false"
}

// send sends a recorded response. A client must see that it is not saved.
func (r *recorder) send(p *response, status []byte, f fate, unsaved bool) {
	h := r.w.Header()
	p.restore(h)
	if advice := r.m.retryAdvice(p.status, f); advice != "" && len(h[r.m.Profile.RetryHeader]) == 0 {
		h[r.m.Profile.RetryHeader] = []string{advice}
	}
	length := p.lengthToSend()
	text := string(strconv.AppendInt(status, length, 10)) // one allocation for both values
	r.values[0], r.values[1] = text[:len(status)], text[len(status):]
	if r.m.Profile.StatusHeader || unsaved && !r.m.Profile.HideStatus {
		h["Idempotency-Status"] = r.values[0:1:1]
	}
	r.m.setEcho(h, r.echo)
	r.m.setResultHeader(h, f != released && f != busy)
	if length >= 0 {
		h["Content-Length"] = r.values[1:2:2]
	}
	r.w.WriteHeader(p.status)
	if len(p.body) > 0 {
		r.w.Write(p.body)
	}
	p.setTrailers(h)
}

// lengthToSend returns the Content-Length to send; -1: none. A body with trailers is sent in chunks. A body that is
// shorter than the handler announced is sent with the announced length, so that the client sees that it is
// incomplete.
func (p *response) lengthToSend() int64 {
	switch {
	case p.trailer || !bodyAllowed(p.status):
		return -1
	case p.omitted && p.length >= 0:
		return p.length
	}
	return int64(len(p.body))
}

// setEcho sets the field that gives the key back.
func (c *config) setEcho(h http.Header, echo field) {
	if c.Profile.EchoKey && echo.name != "" {
		h[echo.name] = echo.values
	}
}

// setResultHeader says whether the request was accepted, if the profile has a header for that.
func (c *config) setResultHeader(h http.Header, accepted bool) {
	f := c.Profile.RejectedHeader
	if accepted {
		f = c.Profile.AcceptedHeader
	}
	if f.Name != "" {
		h[f.Name] = []string{f.Value}
	}
}

// takeBack discards what the handler has written, and reports whether that was possible: bytes that were sent cannot
// be taken back.
func (x *exchange) takeBack() bool {
	rec := x.recorder
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.state != recording {
		return false
	}
	rec.state = ended
	rec.current.memory = nil
	h := x.w.Header()
	clear(h)
	for _, f := range x.outer {
		h[f.name] = f.values
	}
	return true
}
