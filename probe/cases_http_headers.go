package probe

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// aWhile is long enough for a date in seconds to change.
const aWhile = 2100 * time.Millisecond

// replayLater plays a request, and its retry a while later.
func (t *Trial) replayLater() (first, again Answer, ok bool) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	if first, ok = t.Works("first", r); !ok {
		return first, again, false
	}
	t.waitUntil(first.EndedAt.Add(aWhile))
	again = t.Send("retry, two seconds later", r)
	return first, again, t.wantReplay(first, again)
}

func freshDate(t *Trial) {
	first, again, ok := t.replayLater()
	if !ok {
		return
	}
	was, err := http.ParseTime(first.Header.Get("Date"))
	is, err2 := http.ParseTime(again.Header.Get("Date"))
	switch {
	case err2 != nil && err != nil:
		t.Warnf("the answers have no Date")
	case err2 != nil:
		t.Warnf("the replay (%d) has no Date", again.No)
	case err == nil && !is.After(was):
		t.Failf("the replay (%d) has the Date of the first answer: %s", again.No, again.Header.Get("Date"))
	}
}

func noAge(t *Trial) {
	first, again, ok := t.replayLater()
	switch age := again.Header.Get("Age"); {
	case !ok || age == "":
	case first.Header.Get("Age") != "":
		t.Infof("both answers have an Age (%s, %s): there is a cache on the way", first.Header.Get("Age"), age)
	default:
		t.Failf("the replay (%d) has Age: %s, as if it came from a cache", again.No, age)
	}
}

// otherCoding retries with another Accept-Encoding than the first request, both ways.
func otherCoding(t *Trial) {
	compressed := false
	for _, template := range []*Template{&t.Recipe.Request, t.Recipe.Variants.Large} {
		if template == nil || compressed || !t.Clean() {
			continue
		}
		for _, codings := range [][2]string{{"gzip", "identity"}, {"identity", "gzip"}} {
			compressed = t.codings(*template, codings) || compressed
		}
	}
	if !compressed {
		t.NAf("the target compresses nothing that was asked for")
	}
}

// codings plays a request that accepts one coding and its retry that accepts another. It reports whether anything was compressed.
func (t *Trial) codings(template Template, accept [2]string) bool {
	r := t.Keyed(t.From(template, t.Intent()), t.NewKey())
	first, ok := t.Works("first, accepts "+accept[0], r.Set("Accept-Encoding", accept[0]))
	if !ok {
		return false
	}
	again := t.Send("retry, accepts "+accept[1], r.Set("Accept-Encoding", accept[1]))
	if omitted(again) { // a large answer that was not kept has no coding: see H13
		return false
	}
	var plain [2]Answer
	for i, a := range []Answer{first, again} {
		body, err := decoded(a)
		if err != nil {
			t.Failf("the answer (%d) cannot be decoded: %v", a.No, err)
			return false
		}
		t.wantLabel(a, accept[i], i > 0)
		plain[i] = a
		plain[i].Body = body
	}
	t.wantReplay(plain[0], plain[1])
	return first.coding() != "" || again.coding() != ""
}

// coding is how the body is compressed.
func (a Answer) coding() string {
	c := strings.ToLower(a.Header.Get("Content-Encoding"))
	if c == "identity" {
		return ""
	}
	return c
}

// wantLabel looks at whether an answer has a coding that was accepted, and says that there are others.
func (t *Trial) wantLabel(a Answer, accepted string, replay bool) {
	switch {
	case a.coding() == "":
	case replay && accepted == "identity":
		t.Failf("the replay (%d) is %s, as the first client had it; this one accepts nothing but identity", a.No, a.coding())
	case a.coding() != accepted:
		t.Warnf("the answer (%d) is %s; %s was accepted", a.No, a.coding(), accepted)
	case !strings.Contains(strings.ToLower(strings.Join(a.Header.Values("Vary"), ",")), "accept-encoding") && a.Header.Get("Vary") != "*":
		t.Warnf("the answer (%d) is %s and has no Vary: Accept-Encoding", a.No, a.coding())
	}
}

// decoded is a body without its coding.
func decoded(a Answer) ([]byte, error) {
	looksLikeGzip := bytes.HasPrefix(a.Body, []byte{0x1f, 0x8b})
	switch c := a.coding(); {
	case c == "" && looksLikeGzip && !strings.Contains(a.MediaType(), "zip"):
		return nil, errors.New("it is gzip, and has no Content-Encoding")
	case c == "" || len(a.Body) == 0:
		return a.Body, nil
	case c != "gzip":
		return nil, fmt.Errorf("Content-Encoding %s was not asked for", c)
	}
	z, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		return nil, fmt.Errorf("Content-Encoding is gzip, the body is not: %w", err)
	}
	return io.ReadAll(io.LimitReader(z, maxAnswer))
}

// requestIDs are headers that name one request.
var requestIDs = []string{"X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Ms-Request-Id", "Traceresponse"}

func freshRequestID(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	if !t.wantReplay(first, again) {
		return
	}
	named := false
	for _, name := range requestIDs {
		was, is := first.Header.Get(name), again.Header.Get(name)
		named = named || was != ""
		if was != "" && was == is {
			t.Warnf("the replay (%d) has the first answer's %s: %s", again.No, name, was)
		}
	}
	if !named {
		t.NAf("the first answer has no request id")
	}
}

// crossOrigin asks what a page of another origin may send and see.
func crossOrigin(t *Trial) {
	if t.keyInBody() {
		t.NAf("profile %s has the key in the body", t.Rules.Name)
		return
	}
	const origin = "https://client.example"
	r := t.Fresh()
	ask := Request{Method: http.MethodOptions, Path: r.Path, Close: true}.With("Origin", origin).
		With("Access-Control-Request-Method", r.Method).With("Access-Control-Request-Headers", "content-type,"+strings.ToLower(t.keyHeader()))
	preflight := t.Send("preflight", ask)
	actual := t.Send("the request of a page", t.Keyed(r, t.NewKey()).With("Origin", origin))
	allowed := preflight.Header.Get("Access-Control-Allow-Headers")
	list := "," + joined([]string{strings.ToLower(allowed)}) + ","
	may := preflight.OK() && preflight.Header.Get("Access-Control-Allow-Origin") != "" &&
		(strings.Contains(list, ","+strings.ToLower(t.keyHeader())+",") || strings.Contains(list, ",*,"))
	t.Observe(func(o *Observed) { o.KeyInCORS = seen(may) })
	if !may {
		t.Infof("pages of other origins may not send %s: the preflight got %d, Access-Control-Allow-Headers %q", t.keyHeader(), preflight.Status, allowed)
		return
	}
	t.Infof("pages of other origins may send %s, and see %q", t.keyHeader(), actual.Header.Get("Access-Control-Expose-Headers"))
}
