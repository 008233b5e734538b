package httpsafe

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/retrysafe/retrysafe"
)

// appendStatus appends the Idempotency-Status of a response that the handler has just written.
func (c *config) appendStatus(b []byte, out retrysafe.Outcome, err error) []byte {
	switch {
	case errors.Is(err, errReleased):
		return append(b, "released"...)
	case errors.Is(err, errUnknown):
		return append(b, c.unknownStatus()...)
	case out.Unprotected:
		return append(b, "ignored"...)
	case !out.Stored:
		return append(b, "executed; stored=?0"...)
	}
	b = append(b, "executed"...)
	if out.Attempt > 1 {
		b = strconv.AppendInt(append(b, "; attempt="...), int64(out.Attempt), 10)
	}
	return appendExpiry(b, out.ReplayLeft)
}

// deliver sends what the handler has written.
func (x *exchange) deliver(out retrysafe.Outcome, err error) {
	rec := x.recorder
	rec.mu.Lock()
	defer rec.mu.Unlock()
	before := rec.state
	rec.state = ended
	p := &rec.current
	if rec.sealed.memory != nil && rec.ctx.Completed() {
		p = &rec.sealed
	}
	if before == recording {
		var buf [96]byte
		rec.send(p, x.m.appendStatus(buf[:0], out, err))
	}
	if out.Stored || out.Unprotected || out.Result.Code == 0 { // else the record is still being saved, from this memory
		x.m.putMemory(rec.current.memory)
	}
	rec.current.memory, rec.sealed.memory = nil, nil
}

// send sends a recorded response.
func (r *recorder) send(p *response, status []byte) {
	h := r.w.Header()
	p.restore(h)
	length := p.lengthToSend()
	text := string(strconv.AppendInt(status, length, 10)) // both values in one piece of memory
	r.values[0], r.values[1] = text[:len(status)], text[len(status):]
	if r.m.statusHeader {
		h["Idempotency-Status"] = r.values[0:1:1]
	}
	r.m.setEcho(h, r.echo)
	r.m.setAccepted(h)
	if length >= 0 {
		h["Content-Length"] = r.values[1:2:2]
	}
	r.w.WriteHeader(p.status)
	if len(p.body) > 0 {
		r.w.Write(p.body)
	}
	p.setTrailers(h)
}

// lengthToSend is the response's Content-Length; -1: none. A body with trailers is sent in chunks. One that is shorter
// than announced is sent as announced, so that the client sees that it is cut off.
func (p *response) lengthToSend() int64 {
	switch {
	case p.trailer || !bodyAllowed(p.status):
		return -1
	case p.omitted && p.length >= 0:
		return p.length
	}
	return int64(len(p.body))
}

// setEcho gives a request's key back.
func (c *config) setEcho(h http.Header, echo field) {
	if c.echoKey && echo.name != "" {
		h[echo.name] = echo.values
	}
}

// setAccepted sets what the profile has on every answer that is not a refusal.
func (c *config) setAccepted(h http.Header) {
	if c.accepted.Name != "" {
		h[c.accepted.Name] = []string{c.accepted.Value}
	}
}

// takeBack forgets what the handler has written, and reports whether that was possible.
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
