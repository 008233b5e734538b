package judges

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

func anyonce() suite {
	return suite{
		id: "anyonce", name: "anyonce's vectors of the draft", license: "Apache-2.0",
		source: "https://github.com/sns45/anyonce", checkout: "anyonce",
		version: func(*testing.T) string { return "0.0.0, its vectors read in November 2026" },
		ways: []way{
			{name: "the middleware", run: func(t *testing.T, _ bool) outcome {
				f := &fixture{}
				guarded := httpsafe.Middleware(newGuard(), httpsafe.ScopeNone(), httpsafe.Options{Required: true})
				server := httptest.NewServer(guarded(f))
				t.Cleanup(server.Close)
				return runAnyonce(t, f, server.URL)
			}},
			{name: "the proxy, with in_flight: reject", run: func(t *testing.T, _ bool) outcome {
				f := &fixture{}
				upstream := httptest.NewServer(f)
				t.Cleanup(upstream.Close)
				return runAnyonce(t, f, "http://"+startProxy(t, "upstream: "+upstream.URL+
					"\nstore: 'memory:'\nscope: none\ndefaults: {required: true, in_flight: reject}\nroutes: {POST /: {}}\n"))
			}},
		},
		reasons: []reason{
			{
				".*", "profile/5xx-not-stored",
				"A 500 may come after the work was done: to run it again could do it twice. It is stored and replayed, unless a " +
					"policy says otherwise.",
			},
			{
				".*", "profile/(4xx-replayed|replayed-header)",
				"A replay is marked by `Idempotent-Replayed: true`, as Stripe and others do, and not by `Idempotency-Replayed`. The " +
					"setting `marker` chooses another name.",
			},
			{
				".*", "profile/omitted-body-replay",
				"The retry gets the status and an empty body, as the vector wants it. The headers that say so have other names.",
			},
			{
				".*", "profile/(empty-key-rejected|key-too-long|problem-code-member)",
				"The status is the expected one, and the handler does not run. The values of the problem's member `code` are ours: " +
					"`key-malformed`, `key-missing`, `key-reused`.",
			},
		},
	}
}

// fixture is the service that the vectors call.
type fixture struct{ runs atomic.Int64 }

func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"count": %d}`, f.runs.Load())
		return
	}
	f.runs.Add(1)
	query := func(name string) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
	switch first, rest, _ := bytes.Cut([]byte(r.URL.Path[1:]), []byte("/")); string(first) {
	case "echo":
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		io.Copy(w, r.Body)
	case "status":
		code, _ := strconv.Atoi(string(rest))
		w.WriteHeader(code)
		fmt.Fprintf(w, "status:%d", code)
	case "slow":
		<-time.After(time.Duration(query("ms")) * time.Millisecond)
		fmt.Fprintf(w, "slept:%d", query("ms"))
	case "large":
		w.Write(bytes.Repeat([]byte("x"), query("bytes")))
	}
}

// anyonceVector is a vector: requests in their order, and what their answers must be.
type anyonceVector struct {
	ID       string
	Requires []string
	Steps    []struct {
		ID             string
		DelayMs        int
		ConcurrentWith []string
		Request        struct {
			Method, Path, Body string
			Headers            map[string]string
		}
		Expect struct {
			Status             int
			Headers            map[string]any
			BodyEquals         any
			BodyJSON           map[string]any
			BodyBytes          *int
			HandlerInvocations *int64
		}
	}
}

func runAnyonce(t *testing.T, f *fixture, url string) (o outcome) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(*checkouts, "anyonce/conformance/vectors/*/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var v anyonceVector
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(v.Requires) > 0 {
			continue // a retention of two seconds, which no service has
		}
		f.runs.Store(0)
		o.add(v.ID, v.run(f, url))
	}
	return o
}

// run returns what is wrong with the answers.
func (v anyonceVector) run(f *fixture, url string) string {
	said := make([]string, len(v.Steps))
	bodies := make([][]byte, len(v.Steps))
	var group sync.WaitGroup
	for i, s := range v.Steps {
		together := i+1 < len(v.Steps) && len(v.Steps[i+1].ConcurrentWith) > 0
		<-time.After(time.Duration(s.DelayMs) * time.Millisecond)
		group.Go(func() {
			r, err := http.NewRequest(s.Request.Method, url+s.Request.Path, bytes.NewReader([]byte(s.Request.Body)))
			if err != nil {
				said[i] = err.Error()
				return
			}
			for name, value := range s.Request.Headers {
				r.Header[name] = []string{value}
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				said[i] = err.Error()
				return
			}
			defer res.Body.Close()
			bodies[i], _ = io.ReadAll(res.Body)
			if res.StatusCode != s.Expect.Status {
				said[i] = fmt.Sprintf("%s: status %d instead of %d", s.ID, res.StatusCode, s.Expect.Status)
			}
			for name, want := range s.Expect.Headers {
				if got := res.Header.Get(name); !headerIs(got, want) {
					said[i] += fmt.Sprintf(" %s: %s is %q, not %v", s.ID, name, got, want)
				}
			}
			if want := s.Expect.BodyBytes; want != nil && len(bodies[i]) != *want {
				said[i] += fmt.Sprintf(" %s: %d bytes instead of %d", s.ID, len(bodies[i]), *want)
			}
			var got map[string]any
			_ = json.Unmarshal(bodies[i], &got)
			for name, want := range s.Expect.BodyJSON {
				if fmt.Sprint(got[name]) != fmt.Sprint(want) {
					said[i] += fmt.Sprintf(" %s: %s is %v, not %v", s.ID, name, got[name], want)
				}
			}
		})
		if !together {
			group.Wait()
		}
		if want := s.Expect.HandlerInvocations; !together && want != nil && f.runs.Load() != *want {
			said[i] += fmt.Sprintf(" %s: the handler ran %d times instead of %d", s.ID, f.runs.Load(), *want)
		}
	}
	for i, s := range v.Steps {
		want := s.Expect.BodyEquals
		if same, ok := want.(map[string]any); ok {
			for j, other := range v.Steps {
				if other.ID == same["sameAs"] {
					want = string(bodies[j])
				}
			}
		}
		if want != nil && want != string(bodies[i]) {
			said[i] += fmt.Sprintf(" %s: the body is %q, not %q", s.ID, bodies[i], want)
		}
	}
	return joinSaid(said)
}

func joinSaid(said []string) (all string) {
	for _, s := range said {
		if s != "" {
			all = strings.TrimPrefix(all+"; "+strings.TrimSpace(s), "; ")
		}
	}
	return all
}

// headerIs reports whether a header is what a vector wants: a text, or {absent: true}, {present: true}, {regex: …}.
func headerIs(got string, want any) bool {
	rule, ok := want.(map[string]any)
	switch {
	case !ok:
		return got == want
	case rule["absent"] == true:
		return got == ""
	case rule["present"] == true:
		return got != ""
	}
	return regexp.MustCompile(fmt.Sprint(rule["regex"])).MatchString(got)
}
