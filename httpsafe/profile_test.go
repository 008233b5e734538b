package httpsafe_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
)

const someUUID = "8e03978e-40d5-43dd-bc93-6894a57f9324"

// TestProfiles sends each profile's own kind of request: first, again, changed, and while in flight.
func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		profile  string
		key      func(*http.Request)
		replay   int
		mismatch int
		says     string // part of the mismatch's body
		inFlight int
		busySays string
		header   string // on the refusal in flight
		marker   string // of the replay, by name and value
	}{
		{
			"ietf", header("Idempotency-Key", "k"), 201, 422, `"code":"key-reused"`, 409, `"code":"request-in-flight"`,
			"Retry-After: 1", "Idempotent-Replayed: true",
		},
		{
			"ietf-strict", header("Idempotency-Key", `"k"`), 201, 422, `"code":"key-reused"`, 409,
			`"code":"request-in-flight"`, "Retry-After: 1", "Idempotent-Replayed: true",
		},
		{
			"stripe", header("Idempotency-Key", `"k`), 201, 400, `"type":"idempotency_error"`, 409,
			`"code":"idempotency_key_in_use"`, "Stripe-Should-Retry: true", "Idempotent-Replayed: true",
		},
		{
			"stripe-v2", header("Idempotency-Key", "k"), 201, 400, `"type":"idempotency_error"`, 409,
			`"code":"idempotency_key_in_use"`, "Stripe-Should-Retry: true", "",
		},
		{
			"paypal", header("PayPal-Request-Id", "k"), 201, 422, `"issue":"PAYPAL_REQUEST_ID_PREVIOUSLY_USED"`, 409,
			`"issue":"PREVIOUS_REQUEST_IN_PROGRESS"`, "", "",
		},
		{
			"adyen", header("Idempotency-Key", "k"), 201, 422, `"errorCode":"704"`, 409, `"errorCode":"704"`,
			"Transient-Error: true", "Idempotency-Key: k",
		},
		{
			"repeatability", repeatable(time.Now()), 201, 400, `"code":"KeyReused"`, 409, `"code":"RequestInFlight"`,
			"Repeatability-Result: rejected", "Repeatability-Result: accepted",
		},
		{"square", nil, 201, 400, `"code":"IDEMPOTENCY_KEY_REUSED"`, 409, `"category":"INVALID_REQUEST_ERROR"`, "", ""},
		{
			"aws", target("/payments?ClientToken=k"), 201, 400, `"__type":"IdempotentParameterMismatch"`, 409,
			`"__type":"IdempotentRequestInProgress"`, "", "",
		},
		{"checkout", header("Cko-Idempotency-Key", "k"), 201, 0, "", 429, `"error_codes":["request_in_flight"]`, "", ""},
		{"gocardless", header("Idempotency-Key", "k"), 409, 0, "", 409, `"reason":"idempotent_creation_conflict"`, "", ""},
	} {
		t.Run(c.profile, func(t *testing.T) {
			k := newKit(t)
			p, err := httpsafe.ProfileByName(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			k.options.Profile = p
			key := c.key
			one, two := body(`{"idempotency_key":"k","n":1}`), body(`{"idempotency_key":"k","n":2}`)
			if key == nil {
				key = func(*http.Request) {}
			}
			k.while(request("", one, key), func() {
				a := k.post("", one, key).want(c.inFlight)
				a.wantIn(c.busySays)
				a.wantLine(c.header)
			})
			replay := k.post("", one, key).want(c.replay)
			replay.wantLine(c.marker)
			if c.mismatch != 0 {
				k.post("", two, key).want(c.mismatch).wantIn(c.says)
			}
			k.wantRuns(1)
		})
	}
}

// repeatable sets the headers of the repeatability profile.
func repeatable(sent time.Time) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Repeatability-Request-ID", someUUID)
		r.Header.Set("Repeatability-First-Sent", sent.UTC().Format(http.TimeFormat))
	}
}

func (a *answer) wantIn(text string) *answer {
	a.k.Helper()
	if !strings.Contains(a.body, text) || !json.Valid([]byte(a.body)) {
		a.k.Errorf("%s is not in %s", text, a.body)
	}
	return a
}

func (a *answer) wantLine(line string) {
	a.k.Helper()
	if name, value, ok := strings.Cut(line, ": "); ok {
		a.wantHeader(name, value)
	}
}

func TestRepeatability(t *testing.T) {
	k := newKit(t)
	k.options.Profile = httpsafe.Repeatability()
	rejected := func(status int, change ...func(*http.Request)) {
		t.Helper()
		k.post("", change...).want(status).wantHeader("Repeatability-Result", "rejected").wantIn(`{"error":{"code":`)
	}
	rejected(400, header("Repeatability-Request-ID", someUUID))
	rejected(400, header("Repeatability-First-Sent", time.Now().UTC().Format(http.TimeFormat)))
	rejected(400, header("Repeatability-Request-ID", someUUID), header("Repeatability-First-Sent", "yesterday"))
	rejected(400, repeatable(time.Now()), header("Repeatability-Request-ID", "no-uuid"))
	rejected(400, repeatable(time.Now().Add(time.Hour))) // it could be retried an hour longer than its record is kept
	rejected(412, repeatable(time.Now().Add(-25*time.Hour)))
	rejected(501, repeatable(time.Now()), method("LINK"))
	k.wantRuns(0)
	k.post("", repeatable(time.Now()), method("GET")).want(201)
	k.post("", repeatable(time.Now())).want(201).wantHeader("Repeatability-Result", "accepted")
	// A record that is still there counts more than the time at which the request claims to have been sent.
	k.post("", repeatable(time.Now().Add(-25*time.Hour))).want(201).wantHeader("Repeatability-Result", "accepted")
	k.wantRuns(2)
}

func TestSquareKey(t *testing.T) {
	k := newKit(t)
	k.options.Profile = httpsafe.Square()
	k.post("", body(`{"n":1}`)).want(400).wantIn(`"code":"KEY_MISSING"`)
	k.post("", body(`no JSON`)).want(400).wantIn(`"code":"KEY_MISSING"`)
	k.post("", body(`{"idempotency_key":""}`)).want(400).wantIn(`"code":"KEY_MALFORMED"`)
	k.post("", body(`{"idempotency_key":"`+strings.Repeat("x", 46)+`"}`)).want(400).wantIn(`"code":"KEY_MALFORMED"`)
	k.wantRuns(0)
	k.post("", body(`{"idempotency_key":"k"}`)).want(201)
	k.post("", body(`{"idempotency_key":"k"}`), target("/refunds")).want(201)
	k.wantRuns(2)
}

// Seen to fail with RefuseReplays ignored by WithDefaults, and with AlreadyCreated left out of Rules.
func TestGoCardlessNamesTheResource(t *testing.T) {
	k := newKit(t)
	k.options.Profile = httpsafe.GoCardless()
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/payments/PM123")
		w.WriteHeader(http.StatusCreated)
	}
	k.post("k").want(201)
	k.post("k").want(409).wantIn(`"links":{"conflicting_resource_id":"PM123"}`).wantIn(`"type":"invalid_state"`)
	k.handler = func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"id":"PM9"}`)) }
	k.post("body").want(200)
	k.post("body").want(409).wantIn(`"conflicting_resource_id":"PM9"`)
	rules := k.options.Rules("", retrysafe.Policy{})
	if p := rules.Problems[len(rules.Problems)-1]; p.Slug != httpsafe.AlreadyCreated || p.Status != 409 {
		t.Errorf("the policy page ends with %s, %d", p.Slug, p.Status)
	}
}

// TestKeptStatuses: which statuses each profile keeps, by the number of times a handler runs that answers with them. 408,
// 502, 503 and 504 are kept in each, because they may follow an effect: see Options.TrustUnavailable.
// Seen to fail with 303 released by paypal and checkout: a handler that redirects after its success ran again.
func TestKeptStatuses(t *testing.T) {
	for profile, kept := range map[string]string{
		"ietf":        "200 201 303 400 404 409 422 500 502 503 504",
		"ietf-strict": "200 201 303 400 401 403 404 409 422 429 500 502 503 504",
		"stripe":      "200 201 303 400 404 422 500 502 503 504",
		"stripe-v2":   "200 201 303 502 503 504",
		"paypal":      "200 201 303 502 503 504",
		"adyen":       "200 201 303 400 404 409 422 500 502 503 504",
		"checkout":    "200 201 303 502 503 504",
	} {
		p, err := httpsafe.ProfileByName(profile)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, status := range []int{200, 201, 303, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 504} {
			k := newKit(t)
			k.options.Profile = p
			k.handler = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }
			for range 2 {
				k.post("", header(p.Header, `"k"`)).want(status)
			}
			if k.ran.Load() == 1 {
				got = append(got, http.StatusText(status)[:0]+jsonNumber(status))
			}
		}
		if text := strings.Join(got, " "); text != kept {
			t.Errorf("%s keeps %s, want %s", profile, text, kept)
		}
	}
}

func jsonNumber(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func TestClassPresets(t *testing.T) {
	for _, c := range []struct {
		f      httpsafe.ClassFunc
		status int
		want   retrysafe.Class
	}{
		{httpsafe.ThreeClasses, 599, retrysafe.ClassAmbiguous},
		{httpsafe.ThreeClasses, 511, retrysafe.ClassRelease},
	} {
		if got := c.f(c.status); got != c.want {
			t.Errorf("status %d is of class %d, want %d", c.status, got, c.want)
		}
	}
}

// Seen to fail with StoreSuccesses in the row of "executed".
func TestClassByName(t *testing.T) {
	want := map[string]string{ // the classes of 200, 404, 409, 419, 429 and 500
		"definite": "SSSSRA", "all": "SSSSSS", "executed": "SSRSRS", "successes": "SRRRRR",
		"unless-server-failed": "SSSRRR",
	}
	for _, name := range httpsafe.ClassNames() {
		class, err := httpsafe.ClassByName(name)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, status := range []int{200, 404, 409, 419, 429, 500} {
			letters := map[retrysafe.Class]string{
				retrysafe.ClassStore: "S", retrysafe.ClassRelease: "R", retrysafe.ClassAmbiguous: "A",
			}
			got += letters[class(status)]
		}
		if got != want[name] {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
	if _, err := httpsafe.ClassByName(""); err == nil || !strings.Contains(err.Error(), "unless-server-failed") {
		t.Errorf("error %v", err)
	}
}

func TestProfileByName(t *testing.T) {
	for _, p := range httpsafe.Profiles() {
		if got, err := httpsafe.ProfileByName(p.Name); err != nil || got.Name != p.Name {
			t.Errorf("%s: %v, %v", p.Name, got.Name, err)
		}
		if err := (httpsafe.Options{Profile: p}).Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Retention < time.Minute || p.Class == nil {
			t.Errorf("%s lacks a retention or a class", p.Name)
		}
	}
	if _, err := httpsafe.ProfileByName("other"); err == nil || !strings.Contains(err.Error(), "gocardless") {
		t.Errorf("error %v", err)
	}
}

// A client that sends half a request has no right to its key. Seen to fail with FingerprintNone as what IgnoreBody
// means: the handler ran.
func TestNoProfileClaimsBeforeTheBodyHasCome(t *testing.T) {
	for _, p := range httpsafe.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			k := newKit(t)
			p.FirstSent = ""
			p.KeySyntax = httpkey.Syntax{Form: httpkey.Bare}
			k.options.Profile = p.WithHeader("Key")
			half := func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("1"), brokenOff{})) }
			if got := k.post("", header("Key", "k"), half).StatusCode; got != http.StatusBadRequest {
				t.Errorf("half a request gets %d, want 400", got)
			}
			k.wantRuns(0)
			k.post("", header("Key", "k")).want(http.StatusCreated)
		})
	}
}

// brokenOff is the rest of a body whose client has gone.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestErrorsInEveryProfile: every refusal of every profile is JSON and holds neither the key nor the caller.
func TestErrorsInEveryProfile(t *testing.T) {
	const secret = "secret-key-17"
	for _, p := range httpsafe.Profiles() {
		k := newKit(t)
		k.options.Profile = p
		k.options.Required = true
		k.options.QuotaFunc = func(*http.Request, string) time.Duration { return time.Second }
		k.policy.OnAbandoned = retrysafe.Refuse()
		withKey := func(r *http.Request) {
			r.Header.Set(p.Header, `"`+secret+`"`)
			if p.FirstSent != "" {
				repeatable(time.Now())(r)
			}
			body(`{"idempotency_key":"` + secret + `","ClientToken":"` + secret + `"}`)(r)
		}
		if p.Header == "" {
			withKey = body(`{"idempotency_key":"` + secret + `","ClientToken":"` + secret + `"}`)
		}
		for _, change := range []func(*http.Request){
			func(*http.Request) {}, withKey, header("Early-Data", "1"), header("Caller"), body(strings.Repeat("x", 2<<20)),
		} {
			a := k.post("", withKey, change)
			if a.StatusCode < 400 || !json.Valid([]byte(a.body)) || strings.Contains(a.body, secret) ||
				strings.Contains(a.body, "alice") {
				t.Errorf("%s: %d %s", p.Name, a.StatusCode, a.body)
			}
		}
		k.wantRuns(0)
	}
}

// A client cannot tell an answer without its body from an empty one. Seen to fail with the status header left to the
// profile alone.
func TestEveryProfileSaysThatABodyIsMissing(t *testing.T) {
	for _, p := range httpsafe.Profiles() {
		if p.RefuseReplays {
			continue // what it answers has a body of its own
		}
		t.Run(p.Name, func(t *testing.T) {
			k := newKit(t)
			p.FirstSent = ""
			p.KeySyntax = httpkey.Syntax{Form: httpkey.Bare}
			k.options.Profile = p.WithHeader("Key")
			k.policy.MaxResult = 100
			k.handler = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 101)) }
			k.post("", header("Key", "k")).want(200)
			k.post("", header("Key", "k")).want(200).wantBody("").wantState("replayed; body=?0; exp=@EXP")
		})
	}
}

// A required key is required of each method that has an effect: PUT and DELETE without one passed through unguarded.
//
// Seen to fail with requiredMethods returning the profile's methods.
func TestRequiredGuardsEveryMethodWithAnEffect(t *testing.T) {
	for _, name := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		k := newKit(t)
		k.options.Required = true
		k.post("", method(name)).wantProblem(400, httpsafe.KeyMissing)
		k.wantRuns(0)
		k.post("k", method(name)).want(201)
		k.post("k", method(name)).want(201)
		k.wantRuns(1)
	}
	k := newKit(t)
	k.options.Required, k.options.Profile = true, httpsafe.IETF()
	k.options.Profile.Methods = []string{http.MethodPost}
	k.post("", method(http.MethodPut)).want(201) // methods that were chosen
	k.post("", method(http.MethodGet)).want(201)
}

// A client finds each profile of a server under the same name, and with the same content.
//
// Seen to fail with AWS left out of ProfileByName of httpkey.
func TestClientsKnowEachProfile(t *testing.T) {
	for _, p := range httpsafe.Profiles() {
		if known, err := httpkey.ProfileByName(p.Name); err != nil || !reflect.DeepEqual(known, p.Profile) {
			t.Errorf("%s: clients have %+v, %v", p.Name, known, err)
		}
	}
}
