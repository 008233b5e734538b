package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const (
	uuid4 = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	uuid8 = `[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
)

// guardedServer is a real server with our middleware, whose handler counts what it does. lose says which answers never
// arrive; it is asked when the handler's work has been saved.
type guardedServer struct {
	*httptest.Server
	mu      sync.Mutex
	effects map[string]int // by body
	keys    map[string]bool
	answers int
}

func newGuardedServer(t testing.TB, o httpsafe.Options, lose func(n int) bool) *guardedServer {
	t.Helper()
	s := &guardedServer{effects: map[string]int{}, keys: map[string]bool{}}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.effects[string(body)]++
		if a, ok := retrysafe.AttemptFrom(r.Context()); ok {
			s.keys[a.Key().ID] = true
		}
		s.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("done " + string(body)))
	})
	guarded := httpsafe.Middleware(guard, httpsafe.ScopeNone(), o)(work)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		guarded.ServeHTTP(recorded, r)
		s.mu.Lock()
		s.answers++
		n := s.answers
		s.mu.Unlock()
		if lose != nil && lose(n) {
			panic(http.ErrAbortHandler) // the connection dies without an answer
		}
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorded.Code)
		w.Write(recorded.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s
}

func firstOnly(n int) bool { return n == 1 }

// Each profile gets its key in its own form, and a lost answer is had again from our own middleware.
// Seen to fail with write's quotes taken out (ietf-strict), and with setFirstSent taken out (repeatability).
func TestEachProfileGetsItsKey(t *testing.T) {
	for _, c := range []struct{ profile, where, form string }{
		{"ietf", "Idempotency-Key", `"` + uuid4 + `"`},
		{"ietf-strict", "Idempotency-Key", `"` + uuid4 + `"`},
		{"stripe", "Idempotency-Key", uuid4},
		{"stripe-v2", "Idempotency-Key", uuid4},
		{"paypal", "Paypal-Request-Id", uuid4},
		{"adyen", "Idempotency-Key", uuid4},
		{"repeatability", "Repeatability-Request-Id", uuid4},
		{"square", "body", `\{"idempotency_key":"` + uuid4 + `","amount":17\}`},
		{"aws", "query", `https://bank.example/charges\?ClientToken=` + uuid4},
		{"checkout", "Cko-Idempotency-Key", uuid4},
		{"gocardless", "Idempotency-Key", uuid4},
	} {
		t.Run(c.profile, func(t *testing.T) {
			profile, err := httpsafe.ProfileByName(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			p := play(t, httpclient.Options{Profile: profile.Profile}, nil, lost, reply(503), reply(201))
			if len(p.sent) != 3 {
				t.Fatalf("sent %d times: %v", len(p.sent), p.err)
			}
			first := map[string]string{"body": p.sent[0].body, "query": p.sent[0].url}[c.where]
			if first == "" {
				first = p.sent[0].header.Get(c.where)
			}
			if !regexp.MustCompile("^" + c.form + "$").MatchString(first) {
				t.Errorf("sent %s, want %s", first, c.form)
			}
			for _, s := range p.sent {
				if s.url != p.sent[0].url || s.body != p.sent[0].body || !sameHeader(s.header, p.sent[0].header) {
					t.Errorf("sent %+v, then %+v", p.sent[0], s)
				}
			}
			if c.profile == "repeatability" &&
				p.sent[0].header.Get("Repeatability-First-Sent") != "Sat, 01 Jan 2000 00:00:00 GMT" {
				t.Error(p.sent[0].header)
			}
			server := newGuardedServer(t, httpsafe.Options{Profile: profile}, firstOnly)
			transport := newTransport(t, httpclient.Options{Options: client.Options{Backoff: 1}, Profile: profile.Profile})
			response, err := transport.RoundTrip(chargeAt(t.Context(), server.URL))
			want := http.StatusCreated
			if c.profile == "gocardless" {
				want = http.StatusConflict // it tells a duplicate so
			}
			if err != nil || response.StatusCode != want || len(server.effects) != 1 || server.answers != 2 {
				t.Fatalf("%v, %v, effects %v, answers %d", response, err, server.effects, server.answers)
			}
			response.Body.Close()
			for _, n := range server.effects {
				if n != 1 {
					t.Errorf("%d effects", n)
				}
			}
		})
	}
}

func sameHeader(a, b http.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if a.Get(name) != b.Get(name) {
			return false
		}
	}
	return true
}

func withKey(key string) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request { return r.WithContext(client.WithKey(r.Context(), key)) }
}

// Seen to fail with the look for the caller's own key taken out of chooseKey.
func TestTheKeyIsTheCallersIfThereIsOne(t *testing.T) {
	set := func(name string, values ...string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request { r.Header[name] = values; return r }
	}
	for _, c := range []struct {
		name    string
		profile httpkey.Profile
		change  func(*http.Request) *http.Request
		sent    string // as it goes out; empty: refused
		refused error
	}{
		{"own header, bare", httpkey.IETF(), set("Idempotency-Key", "mine"), "mine", nil},
		{"own header, quoted", httpkey.IETF(), set("Idempotency-Key", `"mine"`), `"mine"`, nil},
		{"own header, bare where quotes must be", httpkey.IETFStrict(), set("Idempotency-Key", "mine"), "", nil},
		{"own header twice", httpkey.IETF(), set("Idempotency-Key", "a", "b"), "", nil},
		{"own header empty", httpkey.IETF(), set("Idempotency-Key", ""), "", nil},
		{"WithKey", httpkey.IETF(), withKey(`say "hi" \o/`), `"say \"hi\" \\o/"`, nil},
		{"WithKey bare", httpkey.Stripe(), withKey("k1"), "k1", nil},
		{"WithKey quoted", httpkey.IETF(), withKey("k1"), `"k1"`, nil},
		{"WithKey too long", httpkey.Adyen(), withKey(strings.Repeat("k", 65)), "", nil},
		{"WithKey as long as can be", httpkey.Adyen(), withKey(strings.Repeat("k", 64)), strings.Repeat("k", 64), nil},
		{"WithKey of a form that is not the profile's", httpkey.Repeatability(), withKey("k1"), "", nil},
		{"WithKey with spaces that the server would trim", httpkey.Adyen(), withKey(" k1 "), "", nil},
		{"WithKey with a line break", httpkey.Stripe(), withKey("k\r\nX: y"), "", nil},
		{
			"both, the same", httpkey.IETF(),
			func(r *http.Request) *http.Request { return withKey("mine")(set("Idempotency-Key", `"mine"`)(r)) }, `"mine"`, nil,
		},
		{
			"both, different", httpkey.IETF(),
			func(r *http.Request) *http.Request { return withKey("other")(set("Idempotency-Key", `"mine"`)(r)) }, "",
			retrysafe.ErrMismatch,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := play(t, httpclient.Options{Profile: c.profile}, c.change, lost, reply(201))
			if c.sent == "" {
				if p.err == nil || len(p.sent) > 0 || c.refused != nil && !errors.Is(p.err, c.refused) {
					t.Errorf("sent %d times, %v", len(p.sent), p.err)
				}
				return
			}
			if p.err != nil || p.sent[0].header.Get(c.profile.Header) != c.sent {
				t.Fatalf("%v, sent %v", p.err, p.sent)
			}
			p.sameEachTime(t, c.profile.Header)
		})
	}
}

// Keys in the body and the query, by what was given and what was sent.
func TestKeysInBodiesAndQueries(t *testing.T) {
	for _, c := range []struct {
		profile    httpkey.Profile
		url, body  string
		sent, says string // url and body; says: an error
	}{
		{httpkey.Square(), "", `{}`, `{"idempotency_key":"k"}`, ""},
		{httpkey.Square(), "", " {\n \"a\": 1.0 } ", "{\"idempotency_key\":\"k\",\n \"a\": 1.0 } ", ""},
		{httpkey.Square(), "", `{"a":1,"idempotency_key":"k"}`, `{"a":1,"idempotency_key":"k"}`, ""},
		{httpkey.Square(), "", `{"idempotency_key":"other"}`, "", "mismatch"},
		{httpkey.Square(), "", `{"idempotency_key":""}`, "", "empty"},
		{httpkey.Square(), "", `[]`, "", "not a JSON object"},
		{httpkey.Square(), "", `{"a":`, "", "not a JSON object"},
		{httpkey.Square(), "", ``, "", "not a JSON object"},
		{httpkey.AWS(), "?a=%20b;c&d=", ``, "https://bank.example/charges?a=%20b;c&d=&ClientToken=k", ""},
		{httpkey.AWS(), "?ClientToken=k", ``, "https://bank.example/charges?ClientToken=k", ""},
		{httpkey.AWS(), "?ClientToken=k&ClientToken=k", ``, "", "multiple"},
		{httpkey.AWS(), "", `{"ClientToken":"k"}`, "https://bank.example/charges", ""},
	} {
		p := play(t, httpclient.Options{Profile: c.profile}, func(r *http.Request) *http.Request {
			r, err := http.NewRequestWithContext(client.WithKey(r.Context(), "k"), http.MethodPost,
				"https://bank.example/charges"+c.url, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}, reply(201))
		if c.says != "" {
			if p.err == nil || len(p.sent) > 0 || c.says != "mismatch" && !strings.Contains(p.err.Error(), c.says) {
				t.Errorf("%s%s: sent %d times, %v", c.url, c.body, len(p.sent), p.err)
			}
			continue
		}
		if p.err != nil || p.sent[0].body != c.sent && p.sent[0].url != c.sent {
			t.Errorf("%s%s: %v, sent %+v", c.url, c.body, p.err, p.sent)
		}
	}
}

// Seen to fail with the quotes' escapes taken out of write.
func TestEveryKeyIsWrittenSoThatItIsReadBack(t *testing.T) {
	server := newGuardedServer(t, httpsafe.Options{Profile: httpsafe.IETFStrict()}, nil)
	transport := newTransport(t, httpclient.Options{Profile: httpkey.IETFStrict()})
	for _, key := range []string{`a\b`, `a"b`, `\"`, "a,b;c=1", "with space", "~!"} {
		response, err := transport.RoundTrip(withKey(key)(chargeAt(t.Context(), server.URL)))
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		response.Body.Close()
		if response.StatusCode != 201 || !server.keys[key] {
			t.Errorf("%s: status %d, keys %v", key, response.StatusCode, server.keys)
		}
	}
}

// One key for each intent, never the same for two.
func TestNewIntentsHaveNewKeys(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		p := play(t, httpclient.Options{}, nil, reply(201))
		seen[p.sent[0].header.Get("Idempotency-Key")] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d keys for 100 intents", len(seen))
	}
}

// Seen to fail with admits taken out of chooseKey.
func TestOneKeyIsForOneRequest(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	transport := newTransport(t, httpclient.Options{Base: base})
	ctx := client.WithKey(t.Context(), "k1")
	send := func(url string) error {
		response, err := transport.RoundTrip(chargeAt(ctx, url))
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	for range 2 {
		if err := send("https://bank.example/charges"); err != nil {
			t.Errorf("the same again: %v", err)
		}
	}
	if err := send("https://bank.example/refunds"); !errors.Is(err, retrysafe.ErrMismatch) || len(base.sent) != 2 {
		t.Errorf("another request with the key: %v", err)
	}
}

// Seen to fail with broad not looked at: the second charge got the answer of the first.
func TestAnIntentWithoutParamsIsRefused(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	caller := http.Client{Transport: newTransport(t, httpclient.Options{Base: base})}
	response, err := caller.Do(charge(client.WithIntent(t.Context(), retrysafe.Intent{Operation: "charge"})))
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, retrysafe.ErrInvalidKey) || len(base.sent) != 0 {
		t.Errorf("%v, sent %d times", err, len(base.sent))
	}
}

func TestIntentKeysAreDeterministic(t *testing.T) {
	charge := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	if key := charge.Key(); !regexp.MustCompile("^" + uuid8 + "$").MatchString(key) {
		t.Errorf("key %s", key)
	}
	const kept = "7de5a88f-fc6a-874f-bc15-3a64d50690bf" // by clients that are out there: it may not change
	if key := charge.Key(); key != kept {
		t.Errorf("key %s, was %s", key, kept)
	}
	seen := map[string]bool{}
	for _, parts := range [][]string{{"a", "b"}, {"ab"}, {"a", "b", ""}, {"", "ab"}, {"a,b"}} {
		seen[retrysafe.Intent{Operation: parts[0], Params: parts[1:]}.Key()] = true
	}
	if len(seen) != 5 {
		t.Error("different intents have the same key")
	}
}

func TestOtherMethodsPassOnce(t *testing.T) {
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		p := play(t, httpclient.Options{}, func(r *http.Request) *http.Request { r.Method = method; return r }, lost,
			reply(201))
		if !errors.Is(p.err, errReset) || len(p.sent) != 1 || p.sent[0].header.Get("Idempotency-Key") != "" {
			t.Errorf("%s: %v, sent %+v", method, p.err, p.sent)
		}
	}
}

// http.Client follows redirects by itself: with a key to another origin it may not.
// Seen to fail with ErrRedirected taken out of prepare: the other origin got the charge.
func TestHTTPClientDoesNotTakeAKeyToAnotherOrigin(t *testing.T) {
	other := newGuardedServer(t, httpsafe.Options{}, nil)
	here := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(here.Close)
	caller := http.Client{Transport: newTransport(t, httpclient.Options{})}
	response, err := caller.Do(chargeAt(context.Background(), here.URL))
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, httpclient.ErrRedirected) || len(other.effects) != 0 {
		t.Errorf("%v, the other origin did %v", err, other.effects)
	}
}

// The member that is to hold the key holds null. Seen to fail with the check of it taken out of putMember: the body
// had it twice.
func TestNullIsNoKeyToSend(t *testing.T) {
	p := play(t, httpclient.Options{Profile: httpkey.Square()}, func(r *http.Request) *http.Request {
		r.Body = io.NopCloser(strings.NewReader(`{"idempotency_key":null}`))
		r.ContentLength = -1
		return r
	}, reply(201))
	if p.err == nil {
		t.Errorf("a client sent the key %q", p.sent[0].body)
	}
}
