package cases

import (
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// replayLater sends a request, and its retry when a date in seconds has changed.
func replayLater(t *run) (first, again wire.Answer, replayed bool) {
	r := t.New()
	first = t.First("first", r)
	t.Pause(time.Until(first.EndedAt.Add(2100 * time.Millisecond)))
	again = t.Send("retry, two seconds later", r)
	return first, again, wantReplay(t, first, again)
}

// freshDate plays H01.
func freshDate(t *run) {
	first, again, replayed := replayLater(t)
	if !replayed {
		return
	}
	was, noFirst := http.ParseTime(first.Header.Get("Date"))
	is, noSecond := http.ParseTime(again.Header.Get("Date"))
	switch {
	case noSecond != nil && noFirst != nil:
		t.Warnf("the answers have no Date")
	case noSecond != nil:
		t.Warnf("the replay (%d) has no Date", again.No)
	case noFirst == nil && !is.After(was):
		t.Failf("the replay (%d) has the Date of the first answer: %s", again.No, again.Header.Get("Date"))
	}
}

// noAge plays H03. If the first answer has an Age too, a cache on the way added both.
func noAge(t *run) {
	first, again, replayed := replayLater(t)
	switch age := again.Header.Get("Age"); {
	case !replayed || age == "":
	case first.Header.Get("Age") != "":
		t.Infof("both answers have an Age (%s, %s): there is a cache in between", first.Header.Get("Age"), age)
	default:
		t.Failf("the replay (%d) has Age: %s, as if it came from a cache", again.No, age)
	}
}

// otherCoding plays H09. It retries with another Accept-Encoding than the first request had, in both directions.
// Servers compress only answers of some size, so it tries variants.large if the ordinary answer stays uncompressed.
func otherCoding(t *run) {
	compressed := false
	for _, template := range []*probe.Template{&t.recipe.Request, t.recipe.Variants.Large} {
		if template == nil || compressed || !t.Clean() {
			continue
		}
		for _, accept := range [][2]string{{"gzip", "identity"}, {"identity", "gzip"}} {
			compressed = wantCodings(t, *template, accept) || compressed
		}
	}
	if !compressed {
		t.Skipf("the target compresses none of its answers")
	}
}

// wantCodings sends a request that accepts one coding and its retry that accepts another. It reports whether any of
// the two answers was compressed.
func wantCodings(t *run, template probe.Template, accept [2]string) bool {
	r := t.NewFrom(template)
	first := t.First("first, accepts "+accept[0], r.Set("Accept-Encoding", accept[0]))
	again := t.Send("retry, accepts "+accept[1], r.Set("Accept-Encoding", accept[1]))
	if omitted(again) { // a large answer that was not kept has no coding: see H13
		return false
	}
	for i, a := range []wire.Answer{first, again} {
		if _, err := a.Decoded(); err != nil {
			t.Failf("the answer (%d) cannot be decoded: %v", a.No, err)
			return false
		}
		vary := strings.ToLower(strings.Join(a.Header.Values("Vary"), ","))
		switch {
		case a.Coding() == "":
		case i > 0 && accept[i] == "identity":
			t.Failf("the replay (%d) is %s, as for the first client, but this client accepts only identity", a.No, a.Coding())
		case a.Coding() != accept[i]:
			t.Warnf("the answer (%d) is %s; %s was accepted", a.No, a.Coding(), accept[i])
		case !strings.Contains(vary, "accept-encoding") && vary != "*":
			t.Warnf("the answer (%d) is %s and has no Vary: Accept-Encoding", a.No, a.Coding())
		}
	}
	wantReplay(t, first, again)
	return first.Coding() != "" || again.Coding() != ""
}

// requestIDs are headers that name one request.
var requestIDs = []string{
	"X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Ms-Request-Id",
	"Traceresponse",
}

// freshRequestID plays H14.
func freshRequestID(t *run) {
	first, again := t.Retried(t.New())
	if !wantReplay(t, first, again) {
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
		t.Skipf("the first answer has no request ID")
	}
}

// crossOrigin plays H15: it sends the preflight of a browser (Fetch §3.3), then the request itself, and records what a
// page of another origin may send and read.
func crossOrigin(t *run) {
	requireNoBodyKeys(t)
	const origin = "https://client.example"
	r := t.Fresh()
	header := strings.ToLower(t.keyHeader())
	ask := wire.Request{Method: http.MethodOptions, Path: r.Path, Close: true}.With("Origin", origin).
		With("Access-Control-Request-Method", r.Method).With("Access-Control-Request-Headers", "content-type,"+header)
	preflight := t.Send("preflight", ask)
	actual := t.Send("the request of a page", t.Keyed(r, newKey(t)).With("Origin", origin))
	allowed := preflight.Header.Get("Access-Control-Allow-Headers")
	list := "," + joined([]string{strings.ToLower(allowed)}) + ","
	may := preflight.OK() && preflight.Header.Get("Access-Control-Allow-Origin") != "" &&
		(strings.Contains(list, ","+header+",") || strings.Contains(list, ",*,"))
	t.Observe(func(o *probe.Observed) { o.KeyInCORS = seen(may) })
	if !may {
		t.Infof("web pages of other origins may not send %s: the preflight got %d, "+
			"Access-Control-Allow-Headers %q",
			t.keyHeader(),
			preflight.Status, allowed)
		return
	}
	t.Infof("web pages of other origins may send %s, and read %q", t.keyHeader(),
		actual.Header.Get("Access-Control-Expose-Headers"))
}
