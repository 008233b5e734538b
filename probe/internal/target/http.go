package target

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// Faults of what is kept of an answer, and of how it is given again.
const (
	ReplayedAs200 Fault = "replayed as 200"   // 201 becomes 200
	LocationLost  Fault = "Location lost"     // a replay has none
	TypeLost      Fault = "Content-Type lost" // a replay has another one
	// numbers and the order of members are not those of the first answer
	Reformatted    Fault = "a JSON column"
	Stamped        Fault = "replays say when"              // the body of each has the time in it
	HeadersSplit   Fault = "headers split at commas"       // what follows a comma is a header line of its own
	NoMarker       Fault = "no marker"                     // a replay cannot be told from a first answer
	MarkerAlways   Fault = "always a marker"               // nor a first answer from a replay
	CookiesAgain   Fault = "cookies again"                 // Set-Cookie is replayed
	SameRequestID  Fault = "the first request's id"        // X-Request-Id is replayed
	DateAgain      Fault = "the first answer's Date"       // Date is replayed
	AgeAdded       Fault = "Age"                           // a replay says how old it is
	HopAgain       Fault = "hop-by-hop fields again"       // what Connection has named is replayed
	GzipUnlabelled Fault = "gzip without Content-Encoding" // a replay is compressed and does not say so
	InterimStored  Fault = "a 103 is the answer"           // an informational response is saved as the answer
	TrailersMerged Fault = "trailers become headers"       // a replay has trailers among its headers
	// an answer that is too large is not saved, nor that it was given
	LargeRunsAgain Fault = "large answers run again"
	LargeCut       Fault = "large answers are cut" // or it is saved without its end
	LargeOmitted   Fault = "large answers are left out, and say so"
	Stored425      Fault = "a 425 is the answer"
	NewJob         Fault = "a retry starts another job" // the 202 comes from in front of the layer
)

// large is how long a large answer is, at least.
const large = 1 << 20

// capture is where work writes its answer. Informational responses go to the client at once: they are no answer.
type capture struct {
	*httptest.ResponseRecorder
	client http.ResponseWriter
}

// WriteHeader implements http.ResponseWriter.
func (c capture) WriteHeader(status int) {
	if status >= 200 {
		c.ResponseRecorder.WriteHeader(status)
		return
	}
	for name, values := range c.Header() {
		c.client.Header()[name] = values
	}
	c.client.WriteHeader(status)
}

// carryOut does the work and returns its answer.
func (a *API) carryOut(w http.ResponseWriter, r *http.Request, body []byte) *httptest.ResponseRecorder {
	out := capture{httptest.NewRecorder(), w}
	if a.has(Stored425) && r.Header.Get("Early-Data") == "1" {
		out.WriteHeader(http.StatusTooEarly)
		return out.ResponseRecorder
	}
	a.work(out, r, body)
	if out.Code == http.StatusCreated {
		out.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		out.Header().Set("Link", `</terms>; rel="terms-of-service", </help>; rel="help"`)
	}
	if name := out.Header().Get("Trailer"); name != "" {
		out.Header()[http.TrailerPrefix+name] = out.Header()[name]
		out.Header().Del(name)
	}
	if a.has(DateAgain) {
		out.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if a.has(HopAgain) {
		out.Header().Set("Connection", "X-Hop")
		out.Header().Set("X-Hop", "1")
	}
	return out.ResponseRecorder
}

// cannotKeep reports whether an answer is not kept, nor its key.
func (a *API) cannotKeep(rec *record) bool { return a.has(LargeRunsAgain) && len(rec.body) > large }

// replay gives the first answer again.
func (a *API) replay(w http.ResponseWriter, r *http.Request, rec *record) {
	again := &record{status: rec.status, header: rec.header.Clone(), body: rec.body}
	if a.framedWrong(w, again) {
		return
	}
	a.spoilHeader(w, again)
	a.spoilBody(r, again)
	a.addExpiry(w, true)
	answer(w, again, !a.has(NoMarker))
}

// spoilHeader changes the headers of a replay as the faults have it.
func (a *API) spoilHeader(w http.ResponseWriter, again *record) {
	h := again.header
	if a.has(NoMarker) {
		h.Del("Set-Cookie")
		h.Del("X-Request-Id")
	}
	if a.has(CookiesAgain) {
		w.Header()["Set-Cookie"] = h["Set-Cookie"]
	}
	if a.has(SameRequestID) {
		w.Header()["X-Request-Id"] = h["X-Request-Id"]
	}
	if a.has(ReplayedAs200) && again.status == http.StatusCreated {
		again.status = http.StatusOK
	}
	if a.has(LocationLost) {
		h.Del("Location")
	}
	if a.has(TypeLost) {
		h.Set("Content-Type", "text/plain")
	}
	if a.has(AgeAdded) {
		h.Set("Age", "2")
	}
	if a.has(HopAgain) {
		h.Del("Connection")
	}
	if a.has(TrailersMerged) {
		h.Del("Trailer")
		h["X-Sum"] = h[http.TrailerPrefix+"X-Sum"]
		delete(h, http.TrailerPrefix+"X-Sum")
	}
	if a.has(InterimStored) && h.Get("Trailer") != "" {
		again.status = http.StatusEarlyHints
	}
	if a.has(HeadersSplit) {
		for name, values := range h {
			h[name] = strings.Split(strings.Join(values, ", "), ", ")
		}
	}
}

// spoilBody changes the body of a replay as the faults have it.
func (a *API) spoilBody(r *http.Request, again *record) {
	if a.has(Reformatted) {
		var v any
		if json.Unmarshal(again.body, &v) == nil {
			again.body, _ = json.Marshal(v)
		}
	}
	if body, ok := strings.CutSuffix(string(again.body), "}"); ok && a.has(Stamped) {
		again.body = []byte(body + `,"at":` + itoa(int(time.Now().UnixNano())) + "}")
	}
	if a.has(GzipUnlabelled) && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		again.body = gzipped(again.body)
	}
	if a.has(LargeCut) && len(again.body) > large {
		again.body = again.body[:large/2]
	}
	if a.has(LargeOmitted) && len(again.body) > large {
		again.body = nil
		again.header.Del("Content-Type")
		again.header.Set("Idempotency-Status", "replayed; body=?0")
	}
}

// framedWrong gives a replay as net/http would not.
func (a *API) framedWrong(w http.ResponseWriter, again *record) bool {
	var head, tail string
	switch n := itoa(len(again.body)); {
	case a.has(TwoFramings):
		head = "Content-Length: " + n + "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
		tail = "\r\n0\r\n\r\n"
		again.body = append([]byte(inHex(len(again.body))+"\r\n"), again.body...)
	case a.has(LengthWrong):
		head, tail = "Content-Length: "+n+"\r\n", "and more\r\n\r\n"
	default:
		return false
	}
	a.speak(w, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nIdempotent-Replayed: true\r\n"+head+"\r\n"+string(again.body)+tail)
	return true
}

// gzipped compresses a body.
func gzipped(body []byte) []byte {
	var b bytes.Buffer
	z := newGzip(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes()
}
