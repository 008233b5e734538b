package httpsafe

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// ReplayNoter is implemented by an http.ResponseWriter that is to know of the request whose answer is replayed, for
// example to link their traces.
type ReplayNoter interface {
	// NoteReplay is called before a stored answer is written. traceparent is that header of the request that ran; "" if
	// it had none.
	NoteReplay(traceparent string)
}

// replay answers from a stored result. Fingerprints that were made with different options cannot be compared, so
// method, path and query are compared once more: a key that was used for another operation is refused.
func (x *exchange) replay(out retrysafe.Outcome) {
	if out.Fingerprint != x.request.Fingerprint && x.m.fingerprint.otherOperation(&x.compared, out.Fingerprint, out.Result.Meta) {
		known := retrysafe.Record{Key: x.request.Key, Age: out.Age, Result: out.Result}
		if x.delivery != nil {
			x.delivery.Advice = retrysafe.SituationMismatch.Advice()
		}
		x.adviseOn(retrysafe.ErrMismatch, known)
		return
	}
	if noter, ok := x.w.(ReplayNoter); ok {
		noter.NoteReplay(about(string(out.Result.Meta), aboutTraceparent))
	}
	if x.m.Profile.ReplayFunc != nil && x.replayAsRefusal(out) {
		return
	}
	n := len(out.Result.Body)
	if len(x.m.Profile.EchoFields) > 0 || x.m.Profile.MarkerField != "" {
		n *= 2 // a copy is changed
	}
	if n > uncounted {
		if p := x.account.take(n); p != nil { // it is held until the client has read it
			p.Executed = retrysafe.ExecutedYes.String()
			if out.Result.Failed {
				p.Executed = retrysafe.ExecutedUnknown.String()
			}
			p.Detail = "The operation has ended, and there is no memory for its answer at the moment. " +
				"Retry with the same key to get it."
			x.refuse(*p)
			return
		}
	}
	h := x.w.Header()
	x.m.setEcho(h, x.echo)
	x.setPreferenceApplied()
	x.m.writeStored(x.w, x.r, out, x.bodyBytes())
}

// replayAsRefusal answers as APIs do that refuse duplicates. It reports whether it has answered.
func (x *exchange) replayAsRefusal(out retrysafe.Outcome) bool {
	stored := Replayed{Status: out.Result.Code, Body: out.Result.Body}
	for lines := metaLines(string(out.Result.Meta)); lines != ""; {
		var line metaLine
		if line, lines = cutMetaLine(lines); line.mark == 0 && line.name == "Location" {
			stored.Location = line.value
		}
	}
	p := x.m.Profile.ReplayFunc(stored)
	if p == nil {
		return false
	}
	x.refuse(*p)
	return true
}

// writeStored writes a stored response: a replay, or the first answer if another process has stored it. asked is the body
// of the request, for Profile.EchoFields; nil leaves the response as it was stored.
func (c *config) writeStored(w http.ResponseWriter, r *http.Request, out retrysafe.Outcome, asked []byte) {
	result := out.Result
	v := replayValues{}
	v.build(out)
	h := w.Header()
	location, trailers := c.setStored(h, &v, result.Omitted)
	status := replayStatus(result)
	if result.Omitted && location && c.Profile.Location303 {
		status = http.StatusSeeOther
	}
	if c.Profile.StatusHeader || (result.Omitted || !out.Stored) && !c.Profile.HideStatus { // a client must see that
		h["Idempotency-Status"] = v.add(v.status)
	}
	first := out.CompletedElsewhere // otherwise it is a replay
	if c.Profile.Marker != "" && !first {
		h[c.Profile.Marker] = v.add("true")
	}
	c.setResultHeader(h, true)
	if c.Profile.RetryHeader != "" && status >= 500 { // every retry gets the same error
		h[c.Profile.RetryHeader] = v.add("false")
	}
	if c.Profile.OriginalHeader != "" && !first {
		if id := about(v.text, aboutRequestID); id != "" {
			h[c.Profile.OriginalHeader] = v.add(id)
		}
	}
	trailers = trailers && r.ProtoAtLeast(1, 1) // whether TE asked for them or not, as the first answer did
	if body, changed := c.ofThisReplay(result, h, asked, first); changed {
		describeDecoded(h)
		result.Body, v.length = body, strconv.Itoa(len(body))
	}
	decoded, isDecoded := int64(0), false
	if !result.Omitted && !trailers && refusesCoding(r, h) {
		if decoded, isDecoded = gunzippedSize(result.Body); isDecoded {
			describeDecoded(h)
			v.length = strconv.FormatInt(decoded, 10)
		}
	}
	if bodyAllowed(status) && !trailers {
		h["Content-Length"] = v.add(v.length)
	}
	if trailers {
		announceTrailers(h, v.meta)
	}
	w.WriteHeader(status)
	switch {
	case !bodyAllowed(status) || len(result.Body) == 0 || result.Omitted:
	case isDecoded:
		gunzipTo(w, result.Body)
	default:
		w.Write(result.Body)
	}
	if trailers {
		setStoredTrailers(h, v.meta)
	}
}

// ofThisReplay returns the stored body as this request gets it: with the members that Profile.EchoFields names taken
// from the body of the request, and with the member that marks replays, unless it is the first answer. h is the header
// of the response.
func (c *config) ofThisReplay(
	stored retrysafe.Result, h http.Header, asked []byte, first bool,
) (body []byte, changed bool) {
	echoes, marks := len(c.Profile.EchoFields) > 0 && len(asked) > 0, c.Profile.MarkerField != "" && !first
	if !echoes && !marks || stored.Omitted || len(h["Content-Range"]) > 0 {
		return nil, false
	}
	body = stored.Body
	if coding := h["Content-Encoding"]; len(coding) > 0 {
		if n, ok := gunzippedSize(body); len(coding) > 1 || !isGzip(coding[0]) || !ok || n > int64(c.policy.MaxResult) {
			return nil, false
		}
		var plain bytes.Buffer
		gunzipTo(&plain, body)
		body = plain.Bytes()
	}
	answer := body
	if echoes {
		answer = orAsItWas(answer)(fingerprint.ReplaceJSON(answer, asked, c.Profile.EchoFields))
	}
	if marks {
		answer = orAsItWas(answer)(fingerprint.SetJSON(answer, c.Profile.MarkerField, []byte("true")))
	}
	return answer, !bytes.Equal(answer, body)
}

// orAsItWas returns what takes the result of a change to JSON, or the text as it was if it could not be changed.
func orAsItWas(before []byte) func(after []byte, err error) []byte {
	return func(after []byte, err error) []byte {
		if err != nil {
			return before
		}
		return after
	}
}

// replayStatus is the stored status, made safe: results may come from elsewhere.
func replayStatus(r retrysafe.Result) int {
	switch {
	case r.Code >= 200 && r.Code <= 999:
		return r.Code
	case r.Failed:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// replayValues holds the header values of a replay in two pieces of memory: one for the text, one for the slices.
type replayValues struct {
	text   string // all of it
	meta   string // lines of Result.Meta
	status string // Idempotency-Status
	length string // Content-Length
	values []string
}

func (v *replayValues) build(out retrysafe.Outcome) {
	var buf [96]byte
	b := buf[:0]
	switch {
	case out.CompletedElsewhere:
		b = appendExecuted(b, out.Attempt, out.Result.Omitted)
	case out.Result.Omitted:
		b = append(b, "replayed; body=?0"...)
	default:
		b = append(b, "replayed"...)
	}
	if out.Stored {
		b = appendExpiry(b, out.ReplayLeft)
	} else {
		b = append(b, "; stored=?0"...)
	}
	status := len(b)
	length := len(out.Result.Body)
	if out.Result.Omitted {
		length = 0
	}
	b = strconv.AppendInt(b, int64(length), 10)
	var text strings.Builder
	text.Grow(len(out.Result.Meta) + len(b))
	text.Write(out.Result.Meta)
	text.Write(b)
	v.text = text.String()
	lines, values := v.text[:len(out.Result.Meta)], v.text[len(out.Result.Meta):]
	v.meta = metaLines(lines)
	v.status, v.length = values[:status], values[status:]
	v.values = make([]string, 0, strings.Count(v.meta, "\n")+5)
}

// add returns a slice that holds only s.
func (v *replayValues) add(s string) []string {
	v.values = append(v.values, s)
	n := len(v.values)
	return v.values[n-1 : n : n]
}

// setStored sets the stored header fields. It reports whether there is a Location, and whether there are trailers.
func (c *config) setStored(h http.Header, v *replayValues, omitted bool) (location, trailers bool) {
	name, from := "", 0
	for lines := v.meta; lines != ""; {
		var line metaLine
		line, lines = cutMetaLine(lines)
		switch {
		case line.mark == trailerMark:
			trailers = true
		case line.mark != 0 || omitted && describesBody(line.name):
		case !line.hasValue:
			h[line.name] = nil
		default:
			if line.name != name {
				name, from = line.name, len(v.values)
			}
			v.add(line.value)
			h[name] = v.values[from:len(v.values):len(v.values)]
			location = location || name == "Location"
		}
	}
	return location, trailers && !omitted
}

// announceTrailers says which fields follow the body.
func announceTrailers(h http.Header, meta string) {
	delete(h, "Content-Length")
	var names []string
	eachTrailer(meta, func(name, _ string) {
		if name := http.CanonicalHeaderKey(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	h["Trailer"] = []string{strings.Join(names, ", ")} // one line, as most handlers write it
}

func setStoredTrailers(h http.Header, meta string) {
	eachTrailer(meta, func(name, _ string) { h.Del(name) }) // a header field of the same name is sent
	eachTrailer(meta, func(name, value string) { h.Add(name, value) })
}

func eachTrailer(meta string, f func(name, value string)) {
	for lines := meta; lines != ""; {
		var line metaLine
		if line, lines = cutMetaLine(lines); line.mark == trailerMark {
			f(line.name, line.value)
		}
	}
}
