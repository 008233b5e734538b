package proxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

func TestThePolicyPageTellsOfEveryRoute(t *testing.T) {
	up := newUpstream(t, ok)
	k := newKit(t, up.URL, func(s *setup) {
		s.options.PublicURL = "https://api.example.com"
		s.options.Routes = []proxy.Route{
			{Pattern: "POST /payments", HTTP: httpsafe.Options{Required: true}},
			{Pattern: "/raw/", Unguarded: true},
		}
	})
	got := k.send("GET", proxy.PolicyPath, "", "Accept", "application/json")
	var page struct {
		Routes []struct{ Route string }
	}
	if err := json.Unmarshal([]byte(got.body), &page); err != nil {
		t.Fatal(err)
	}
	want(t, "routes", len(page.Routes), 2)
	want(t, "first", page.Routes[0].Route, "POST /payments")
	refused := k.send("POST", "/payments", "")
	if link := "https://api.example.com" + proxy.PolicyPath + "#key-missing"; !strings.Contains(refused.body, link) {
		t.Errorf("%s is not in %s", link, refused.body)
	}
	want(t, "asked", up.count(), 0)
	k.send("GET", "/.well-known/idempotency-other", "")
	want(t, "asked for another page", up.count(), 1)
}

// The status of an operation can be asked for while it runs, and its result when it has ended, whatever is part of the
// scope of the key. Seen to fail with the status of the default route alone, for a route with a version (404).
func TestTheStatusOfALongOperation(t *testing.T) {
	for _, scope := range []struct {
		routed  bool
		version string
	}{{false, ""}, {true, ""}, {false, "v2"}, {true, "v2"}} {
		began, goOn := make(chan struct{}), make(chan struct{})
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			close(began)
			<-goOn
			w.WriteHeader(201)
			io.WriteString(w, "report")
		})
		profile := httpsafe.IETF()
		profile.ScopeRoute = scope.routed
		k := newKit(t, up.URL, func(s *setup) {
			s.options.Routes = []proxy.Route{{
				Pattern: "POST /reports/{id}",
				HTTP:    httpsafe.Options{InFlightStatus: true, Profile: profile, ScopeVersion: scope.version},
			}}
		})
		first := make(chan answer)
		go func() { first <- k.post("/reports/1", "", "k") }()
		wait(t, began, "the upstream to be asked")
		got := k.post("/reports/1", "", "k")
		want(t, "status", got.StatusCode, 202)
		location := got.Header.Get("Location")
		if got := k.send("GET", location, ""); !strings.Contains(got.body, `"pending"`) {
			t.Errorf("%s: %s", location, got.body)
		}
		close(goOn)
		wait(t, first, "the first answer")
		result := k.send("GET", location+"?result", "")
		want(t, "status of the result", result.StatusCode, 201)
		want(t, "result", result.body, "report")
	}
}
