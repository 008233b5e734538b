package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// Iceberg, "CatalogConfig": "idempotency-key-lifetime" is the "Client reuse window for an Idempotency-Key (ISO-8601
// duration)". It is the retention of the routes that are guarded; where none is, nothing is announced, because
// "Presence of this field indicates the server supports Idempotency-Key semantics". What cannot be changed passes as
// it is.
//
// Seen to fail with "r.Unguarded" left out of announcements, without "min" for the shortest, without askWhole (the
// upstream answers gzip and 304), and with each condition and describeChanged left out of announce.
func TestLifetimeIsAnnounced(t *testing.T) {
	const config = `{"defaults": {}, "overrides": {"a":1.0}}`
	const half, day = `{"idempotency-key-lifetime":"PT30M","defaults": {}, "overrides": {"a":1.0}}`, `"PT24H"`
	long := `{"defaults":{"a":"` + strings.Repeat("x", 64<<10) + `"}}`
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"1"`)
		w.Header().Set("Content-Digest", "sha-256=:x:")
		switch text := r.URL.Query().Get("answer"); {
		case r.Header.Get("Accept-Encoding") != "identity" && strings.HasSuffix(r.URL.Path, "/config"), text == "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, `{"compressed":1}`)
		case r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotModified)
		case text == "404":
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, config)
		case text == "text":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, config)
		case text == "long":
			io.WriteString(w, long)
		case text == "broken":
			io.WriteString(w, `{"defaults":`)
		case text == "own":
			io.WriteString(w, `{"idempotency-key-lifetime":"PT5M"}`)
		default:
			io.WriteString(w, config)
		}
	}))
	defer upstream.Close()
	iceberg := httpsafe.Options{Profile: httpsafe.Iceberg()}
	route := func(pattern string, replay, failures time.Duration) proxy.Route {
		return proxy.Route{Pattern: pattern, HTTP: iceberg, Policy: retrysafe.Policy{
			Retention: retrysafe.Retention{Replay: replay}, FailureRetention: retrysafe.Retention{Replay: failures},
		}}
	}
	kit := func(routes ...proxy.Route) *kit {
		return newKit(t, upstream.URL, func(s *setup) { s.options.Routes = routes })
	}
	k := kit(route("POST /a", time.Hour, 30*time.Minute), route("POST /b", 2*time.Hour, 0))
	for path, want := range map[string]string{
		"/v1/config": half, "/catalog/v1/config?warehouse=w": half, "/v1/config?answer=404": config,
		"/v1/config?answer=text": config, "/v1/config?answer=long": long, "/v1/config?answer=broken": `{"defaults":`,
		"/v1/config?answer=gzip": `{"compressed":1}`, "/v1/other": config,
		"/v1/config?answer=own": `{"idempotency-key-lifetime":"PT30M"}`,
	} {
		match := `"1"`
		if path == "/v1/other" {
			match = ""
		}
		a := k.send("GET", path, "", "Accept-Encoding", "gzip", "If-None-Match", match)
		tag, digest := `"1"`, "sha-256=:x:"
		if strings.Contains(want, "PT30M") {
			tag, digest = `W/"1"`, ""
		}
		if a.body != want || a.Header.Get("Etag") != tag || a.Header.Get("Content-Digest") != digest {
			t.Errorf("%s: %v %.200s, %v", path, a.Status, a.body, a.Header)
		}
	}
	a := k.send("HEAD", "/v1/config", "", "Accept-Encoding", "identity")
	if a.ContentLength != int64(len(config)) || a.Header.Get("Etag") != `"1"` {
		t.Errorf("HEAD: %v", a.Header)
	}
	unguarded := route("POST /a", time.Hour, 0)
	unguarded.Unguarded = true
	if a := kit(unguarded).send("GET", "/v1/config", "", "Accept-Encoding", "identity"); a.body != config {
		t.Errorf("nothing is guarded: %s", a.body)
	}
	observed := route("POST /a", time.Hour, 0)
	observed.Observed = true
	watched := newObservedKit(t, upstream.URL, func(s *setup) { s.options.Routes = []proxy.Route{observed} })
	if a := watched.send("GET", "/v1/config", "", "Accept-Encoding", "identity"); a.body != config {
		t.Errorf("the route is observed: %s", a.body)
	}
	if a := kit(route("POST /a", 0, 0)).send("GET", "/v1/config", ""); !strings.Contains(a.body, day) {
		t.Errorf("the default retention: %s", a.body)
	}
	if a := kit(route("POST /a", 90*time.Second, 0)).send("GET", "/v1/config", ""); !strings.Contains(a.body, `"PT90S"`) {
		t.Errorf("90 seconds: %s", a.body)
	}
}
