package httpsafe_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
)

const (
	card     = `{"id":"card_1","card":{"number":"4242","cvc":4242},"n":1e2}`
	redacted = `{"id":"card_1","card":{"number":"[redacted]","cvc":null},"n":1e2}`
)

// stores returns all texts that the store has of alice's key.
func (k *kit) stores(id string) string {
	return textOf(k.stored(id))
}

func textOf(r retrysafe.Record) string {
	return fmt.Sprintf("%s %s %s %s %s %s %s", r.Key.Scope, r.Key.ID, r.Fingerprint, r.Result.Meta, r.Result.Body, r.Tags, r.Steps)
}

// TestRedact: the first caller gets the response as it is. The values are in nothing that is stored, and a body in which
// it is not certain that they are found is not stored at all.
//
// Seen to fail with RedactJSON taken out of storedOf, and with its error ignored; with plain returning parts of a body,
// which it knows by StatusPartialContent or by Content-Range, and bodies of any coding; with each takeCopy taken out; and
// with either half of leavesOut.
func TestRedact(t *testing.T) {
	with := func(body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			status := http.StatusCreated
			for i := 0; i < len(header); i += 2 {
				if header[i] == "Status" {
					fmt.Sscan(header[i+1], &status)
				} else {
					w.Header()[header[i]] = []string{header[i+1]}
				}
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	long := fmt.Sprintf(`{"card":{"number":"4242"},"pad":%q}`, strings.Repeat("x", 9000))
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		replay  string // its body; "-": it is missing; "=": nothing is hidden
	}{
		"JSON":                    {with(card, "Content-Type", "application/json"), redacted},
		"JSON of an error":        {with(card, "Status", "402"), redacted},
		"the member is missing":   {with(`{"error":"declined"}`), "="},
		"no body":                 {with(""), "="},
		"no body possible":        {with("", "Status", "204"), "="},
		"another value there":     {with(`{"card":"4242"}`), `{"card":"[redacted]"}`},
		"gzip":                    {with(gzipped(card), "Content-Encoding", "gzip"), redacted},
		"gzip, another spelling":  {with(gzipped(card), "content-encoding", "x-gzip"), redacted},
		"nothing in gzip":         {with(gzipped(`{"a":1}`), "Content-Encoding", "gzip"), "="},
		"a list":                  {with(`[` + card + `]`), "-"},
		"not JSON":                {with("card 4242"), "-"},
		"a number":                {with("4242"), "-"},
		"cut off":                 {with(card[:len(card)-1]), "-"},
		"a member twice":          {with(`{"card":{"number":"4242"},"card":{}}`), "-"},
		"two texts":               {with(card + "\n" + card), "-"},
		"a part":                  {with("4242", "Status", "206", "Content-Range", "bytes 36-39/50"), "-"},
		"a part by its status":    {with(`{"n":"4242"}`, "Status", "206"), "-"},
		"a part by its header":    {with(`{"n":"4242"}`, "content-range", "bytes 10-19/50"), "-"},
		"another coding":          {with(card, "Content-Encoding", "br"), "-"},
		"two codings":             {with(gzipped(card), "Content-Encoding", "gzip, br"), "-"},
		"broken gzip":             {with(gzipped(card)[:30], "Content-Encoding", "gzip"), "-"},
		"large when decoded":      {with(gzipped(long+strings.Repeat(" ", 20<<10)), "Content-Encoding", "gzip"), "-"},
		"too large to be stored":  {with(long + strings.Repeat(" ", 20<<10)), "-"},
		"no memory for a copy":    {with(long), "-"},
		"no memory to decode":     {with(gzipped(long), "Content-Encoding", "gzip"), "-"},
		"shorter than announced":  {with(card, "Content-Length", "100"), "-"},
		"a stream":                {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, card); w.(http.Flusher).Flush() }, "-"},
		"saved by a transaction":  {with(card), redacted},
		"a body that is dropped":  {with(card), "-"},
		"in trailers, its digest": {with(card, "Trailer", "Content-Digest"), redacted},
	} {
		t.Run(name, func(t *testing.T) {
			k, b := newBudgetKit(t, 1<<20)
			if strings.HasPrefix(name, "no memory") {
				b.limit = 16 << 10 // enough for one of two copies
			}
			k.policy.MaxResult = 20 << 10
			k.options.Profile.KeepHeaders = []string{"Signature", "Signature-Input"}
			k.options.Profile.Redact = []string{"/card/number", "/card/cvc"}
			k.options.Profile.DropBody = name == "a body that is dropped"
			telling := strings.Fields("Etag Content-Digest Repr-Digest Digest Content-Md5 Signature Signature-Input")
			k.handler = func(w http.ResponseWriter, r *http.Request) {
				for _, h := range telling {
					if name != "in trailers, its digest" {
						w.Header().Set(h, `"4242"`)
					}
				}
				work := func() { c.handler(w, r) }
				if name == "saved by a transaction" && k.inTx(r.Context(), nil, work) == nil {
					return
				}
				work()
				w.Header().Set("Content-Digest", `"4242"`) // for trailers
			}
			first := k.post("k")
			plain := httptest.NewRecorder()
			c.handler(plain, request("k"))
			first.want(plain.Code).wantBody(plain.Body.String())
			if got := k.stores("k"); strings.Contains(got, "4242") != (c.replay == "=") {
				t.Errorf("the store has %s", got)
			}
			switch replay := k.post("k").want(first.StatusCode); c.replay {
			case "-":
				replay.wantBody("").wantState("replayed; body=?0; exp=@EXP")
			case "=":
				replay.wantBody(first.body).wantState("replayed; exp=@EXP").wantHeader("Etag", `"4242"`)
			default:
				replay.wantBody(c.replay).wantState("replayed; exp=@EXP").wantHeader("Content-Encoding", "")
			}
			k.wantRuns(1)
		})
	}
}

// A client that sends the value gets its own back, if EchoFields names it too; and clients are told what replays lack.
//
// Seen to fail with Redacted left out of Options.Rules, and taken out of policypage.html.
func TestRedactedIsEchoed(t *testing.T) {
	k := newKit(t)
	k.options.Profile.Redact, k.options.Profile.EchoFields = []string{"/card"}, []string{"/card"}
	k.options.Fingerprint = httpsafe.FingerprintFields(fingerprint.Fields{Exclude: []string{"/card"}})
	k.handler = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"id":7,"card":"4242"}`) }
	k.post("k", body(`{"card":"4242"}`)).wantBody(`{"id":7,"card":"4242"}`)
	if got := k.stores("k"); strings.Contains(got, "4242") {
		t.Errorf("the store has %s", got)
	}
	k.post("k", body(`{"card":"4343"}`)).wantBody(`{"id":7,"card":"4343"}`)
	k.post("k", body(`{}`)).wantBody(`{"id":7,"card":"[redacted]"}`)
	w := httptest.NewRecorder()
	page := httpsafe.PolicyPage(k.options.Rules("POST /cards", retrysafe.Policy{}))
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/policy", nil))
	if !strings.Contains(w.Body.String(), "<code>/card</code>") {
		t.Error("the page of the policy does not say what replays lack")
	}
}

// Seen to fail with the loop over Redact taken out of Validate.
func TestRedactIsValidated(t *testing.T) {
	for _, pointer := range []string{"", "card", "/~2"} {
		o := httpsafe.Options{Profile: httpsafe.IETF()}
		o.Profile.Redact = []string{pointer}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "Profile.Redact") {
			t.Errorf("%q: %v", pointer, err)
		}
	}
}

// Seen to fail with leavesOut not asked in Profile.Redacted, and with the Body or Failed of its Result set otherwise.
func TestAReconciledResultIsRedacted(t *testing.T) {
	p := httpsafe.IETF()
	p.Redact = []string{"/card/number", "/card/cvc"}
	header := http.Header{"Content-Type": {"application/json"}, "Etag": {`"4242"`}, "Location": {"/cards/1"}}
	r := p.Redacted(httpsafe.NewResult(201, header, []byte(card)))
	if h, _ := httpsafe.HeaderOf(r); string(r.Body) != redacted || r.Code != 201 || r.Omitted || len(h) != 2 {
		t.Errorf("got %d %s %q", r.Code, r.Meta, r.Body)
	}
	r = p.Redacted(httpsafe.NewResult(402, header, []byte("card 4242")))
	if !r.Omitted || !r.Failed || bytes.Contains(r.Meta, []byte("4242")) || len(r.Body) > 0 {
		t.Errorf("got %d %s %q", r.Code, r.Meta, r.Body)
	}
	if r := p.Redacted(retrysafe.Result{Body: []byte("4242")}); string(r.Body) != "4242" {
		t.Error("a result of other code was changed")
	}
}

// Nothing of a request's body is stored but digests, while it runs and afterwards, however it is compared: unless it is
// asked for, as Tags and KeyInBody do, or the handler says it again. Seen to fail with NaturalID taken out of the Key of
// NaturalKey: what it is made of was the key.
func TestNothingOfARequestIsStored(t *testing.T) {
	const text, asked = `{"pan":"4242-5555","amount":17}`, "4242-5555"
	for name, change := range map[string]func(o *httpsafe.Options){
		"raw":       func(o *httpsafe.Options) { o.Fingerprint = httpsafe.FingerprintRaw() },
		"JSON":      func(o *httpsafe.Options) { o.Fingerprint = httpsafe.FingerprintJSON() },
		"form":      func(o *httpsafe.Options) { o.Fingerprint = httpsafe.FingerprintForm() },
		"multipart": func(o *httpsafe.Options) { o.Fingerprint = httpsafe.FingerprintMultipart() },
		"fields": func(o *httpsafe.Options) {
			o.Fingerprint = httpsafe.FingerprintFields(fingerprint.Fields{Include: []string{"/pan"}})
		},
		"echo": func(o *httpsafe.Options) {
			o.Profile.EchoFields = []string{"/pan"}
			o.Fingerprint = httpsafe.FingerprintFields(fingerprint.Fields{Exclude: []string{"/pan"}})
		},
		"natural key": func(o *httpsafe.Options) { o.KeySource = httpsafe.NaturalKey{Fields: []string{"/pan"}} },
		"body hash":   func(o *httpsafe.Options) { o.KeySource = httpsafe.BodyHash{Secret: []byte("secret")} },
		"tag": func(o *httpsafe.Options) {
			o.Tags = map[string]httpsafe.TagPlace{"pan": {Pointer: "/pan"}}
		},
	} {
		k := newKit(t)
		change(&k.options)
		look := func() {
			records, err := k.store.List(t.Context(), retrysafe.ListParams{})
			if err != nil || len(records) != 1 {
				t.Fatalf("%s: %d records, %v", name, len(records), err)
			}
			if got := textOf(records[0]); strings.Contains(got, asked) != (name == "tag") {
				t.Errorf("%s: the store has %s", name, got)
			}
		}
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			if got, _ := io.ReadAll(r.Body); string(got) != text {
				t.Errorf("%s: the handler got %q", name, got)
			}
			look()
			w.WriteHeader(http.StatusCreated)
		}
		k.post("k", body(text)).want(http.StatusCreated)
		look()
	}
}
