package cases_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// late is an API whose effects can be counted only after a while, as those of a replica, a queue or a search index.
type late struct {
	by      time.Duration
	mu      sync.Mutex
	answers map[string]bool
	effects []time.Time
}

// ServeHTTP answers 400 to a request without a key, but has carried it out.
func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
	if key == "" || !l.answers[key] {
		l.effects = append(l.effects, time.Now())
	}
	if key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if l.answers[key] {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	l.answers[key] = true
	fmt.Fprintf(w, `{"id": %q}`, key)
}

func (l *late) Count(context.Context) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.effects {
		if time.Since(at) >= l.by {
			n++
		}
	}
	return n, nil
}

// Effects that are counted late are those of their own case. Seen to fail with the wait of base taken out (K01 has
// one of B12 too many), and with that for lag taken out of Effects (B06 passes).
func TestEffectsThatAreCountedLate(t *testing.T) {
	t.Parallel()
	api := &late{by: 400 * time.Millisecond, answers: map[string]bool{}}
	recipe := recipeOf(t, api)
	recipe.Count, recipe.KeyRequired = api, true
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"B01", "B06", "B12", "K01", "K02"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		miscounted := strings.Contains(fmt.Sprint(o.Findings), "effect")
		if miscounted != (o.ID == "B06") {
			t.Errorf("%s: %s: %v", o.ID, o.Verdict, o.Findings)
		}
	}
}

// recipeOf is the least recipe for a handler, which is served until the test ends.
func recipeOf(t *testing.T, h http.Handler) probe.Recipe {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return probe.Recipe{
		Target: u, Request: probe.Template{Path: "/things", Body: `{"amount": {{amount}}}`},
		Identity: probe.Identity{Pointer: "/id"},
	}
}

// failsOnce is a count that fails the third time.
type failsOnce struct {
	counted
	looks *int
}

func (c failsOnce) Count(ctx context.Context) (int64, error) {
	if *c.looks++; *c.looks == 5 {
		return 0, http.ErrServerClosed
	}
	return c.counted.Count(ctx)
}

// Seen to fail with the error returned from play.
func TestCountThatFailsOnce(t *testing.T) {
	t.Parallel()
	api, server := target.Start(t)
	recipe := recipeFor(t, server.URL, api)
	recipe.Count = failsOnce{counted{api}, new(int)}
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"B01", "B02", "B03"}})
	if err != nil || report.Count(probe.Broken) != 1 || report.Count(probe.Pass) != 2 {
		t.Errorf("%v, %v", err, report.Outcomes)
	}
}

// zipped compresses every answer, whatever the request accepts. No two are compressed in the same way.
func zipped(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		z.ModTime = time.Now().Add(time.Duration(time.Now().Nanosecond()) * time.Second)
		defer z.Close()
		h.ServeHTTP(zipWriter{w, z}, r)
	})
}

type zipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w zipWriter) Write(p []byte) (int, error) { return w.z.Write(p) }

// Seen to fail with plain returning Body.
func TestAnswersThatAreAlwaysCompressed(t *testing.T) {
	t.Parallel()
	recipe := recipeOf(t, zipped(&late{answers: map[string]bool{}}))
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"B01", "B02", "B11", "C02"}})
	if err != nil || report.Count(probe.Pass) != 4 {
		t.Errorf("%v, %v", err, report.Outcomes)
	}
}

// What an error tells is told in any coding. Seen to fail with Body looked at.
func TestCompressedErrorsThatTell(t *testing.T) {
	t.Parallel()
	seen := map[string][]byte{}
	recipe := recipeOf(t, zipped(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		if first := seen[key]; first != nil && !bytes.Equal(first, body) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprintf(w, `{"title": "reused", "first": %q}`, first)
			return
		}
		seen[key] = body
		fmt.Fprintf(w, `{"id": %q}`, key)
	})))
	recipe.Request.Body = `{"amount": {{amount}}, "note": "{{uuid}}"}`
	if o, _ := only(t, "X05", recipe); o.Verdict != probe.Fail {
		t.Errorf("X05: %s, want FAIL: %v", o.Verdict, o.Findings)
	}
}

// Seen to fail with mask taken out.
func TestCredentialsThatAreEchoed(t *testing.T) {
	t.Parallel()
	recipe := recipeOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sent", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"sent": %q}`, r.Header.Get("Authorization"))
	}))
	recipe.A = []wire.HeaderLine{{Name: "Authorization", Value: "Bearer s3cret-of-a"}}
	o, _ := only(t, "B01", recipe)
	if all := fmt.Sprint(o); strings.Contains(all, "s3cret-of-a") || !strings.Contains(all, "Bearer (credential)") {
		t.Error(all)
	}
}

// A first recipe is often wrong in these ways.
func TestFirstRequestSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	for says, h := range map[string]http.HandlerFunc{
		"it has a Location: write identity: {header: Location}": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/things/1")
			w.WriteHeader(http.StatusCreated)
		},
		"its body has /customer, /order~1no: write identity": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"order/no": 1, "customer": "c"}`)
		},
		"redirects the first request (301) to https://127.0.0.1/things: write that": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1/things")
			w.WriteHeader(http.StatusMovedPermanently)
		},
		"its body has Content-Encoding br": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "\x0b\x02\x80")
		},
		"identity finds nothing in it": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		o, _ := only(t, "B01", recipeOf(t, h))
		if o.Verdict != probe.Broken || len(o.Findings) != 1 || !strings.Contains(o.Findings[0].Text, says) {
			t.Errorf("%s: %v, want BROKEN: … %s", o.Verdict, o.Findings, says)
		}
	}
}

// busiest remembers how many requests there were at the same time.
type busiest struct {
	http.Handler
	mu        sync.Mutex
	now, most int
}

func (b *busiest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	b.Handler.ServeHTTP(w, r)
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
}

// Seen to fail with 200 keys always.
func TestBurstBoundsManyKeys(t *testing.T) {
	t.Parallel()
	api := &busiest{Handler: &late{answers: map[string]bool{}}}
	recipe := recipeOf(t, api)
	recipe.Limits.Burst = 3
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"C08"}})
	if err != nil || report.Count(probe.Pass) != 1 || report.Requests > 30 || api.most > 12 {
		t.Errorf("%v, %v, %d requests, %d at once", err, report.Outcomes, report.Requests, api.most)
	}
}
