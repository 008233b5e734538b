package httpsafe_test

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/proxy"
)

// refused returns the body of a problem in a form of one's own, without the line break at its end.
func refused(form httpsafe.RefusalBody, p httpsafe.Problem) string {
	profile := httpsafe.IETF()
	profile.Refusal = form
	_, body := httpsafe.Options{Profile: profile}.WithDefaults().Profile.RenderFunc(p)
	return strings.TrimSuffix(string(body), "\n")
}

func checked(form httpsafe.RefusalBody) error {
	profile := httpsafe.IETF()
	profile.Refusal = form
	return httpsafe.Options{Profile: profile}.Validate()
}

// A profile may say the status and the words of each refusal.
//
// Seen to fail with inbox-full, and with upstream-fenced, taken out of Slugs.
func TestSlugsAreThoseOfAllRefusals(t *testing.T) {
	want := []httpsafe.Slug{httpsafe.AlreadyCreated}
	more := append(proxy.Problems(), (*inbox.Inbox)(nil).Problems()...)
	for _, p := range (httpsafe.Options{}).Rules("", retrysafe.Policy{}, more...).Problems {
		want = append(want, p.Slug)
	}
	slices.Sort(want)
	if got := httpsafe.Slugs(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

type (
	cases = map[string]string // words by case
	id    string              // a text of another type
)

// A value keeps its type where it stands alone, and nothing is written for one that the problem does not have.
//
// Seen to fail with isLone always false, with the members that have no value written as null, with an object of which
// nothing remains written, and with the quotes of a text kept in textOf.
func TestPlaceholders(t *testing.T) {
	busy := httpsafe.Problem{
		Type: "/p", Slug: httpsafe.RequestInFlight, Status: 409, Title: "T", Detail: "a \"b\"\n<é>", Executed: "unknown",
		Retryable: true, RetryAfter: 1500 * time.Millisecond,
		Fields: []httpsafe.ProblemField{{Name: "mismatch", Value: []string{"a", "b"}}, {Name: "state", Value: id("x")}},
	}
	for body, want := range map[string]string{
		`{"a": "{slug}", "b": "{slug_snake}"}`:              `{"a":"request-in-flight","b":"request_in_flight"}`,
		`{"a": "{slug_upper}", "b": "{slug_camel}"}`:        `{"a":"REQUEST_IN_FLIGHT","b":"RequestInFlight"}`,
		`["{title}", "{type}", "{executed}"]`:               `["T","/p","unknown"]`,
		`["{status}", "{retry_after}", "{retryable}"]`:      `[409,2,true]`,
		`["{retry_after_ms}", "{new_key_required}"]`:        `[1500,false]`,
		`["{status} ", "{status}{status}", "{retryable}?"]`: `["409 ","409409","true?"]`,
		`["{detail}", "({detail})"]`:                        `["a \"b\"\n\u003cé\u003e","(a \"b\"\n\u003cé\u003e)"]`,
		`["{mismatch}", "{state}"]`:                         `[["a","b"],"x"]`,
		`["of {mismatch}", "of {state}"]`:                   `["of [\"a\",\"b\"]","of x"]`,
		`["{{", "{{slug}}", "{{{slug}}}", "}}{{"]`:          `["{","{slug}","{request-in-flight}","}{"]`,
		"\n[ null, true, 1.50, \"\", {}, [] ]\n":            `[null,true,1.50,"",{},[]]`,
		`{"z": 1, "a": 2}`:                                  `{"z":1,"a":2}`,

		`{"a": "{reason}", "b": 1, "c": "{header}"}`:         `{"b":1}`,
		`{"a": {"b": {"c": "{reason}"}}, "d": ["{header}"]}`: `{}`,
		`[["{reason}"], 1, "{first_seen}", "{instance}", 2]`: `[1,2]`,
		`["{reason}"]`:        `[]`,
		`{"a": "<{reason}>"}`: `{"a":"\u003c\u003e"}`,
	} {
		form := httpsafe.RefusalBody{Body: body}
		if err := checked(form); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if got := refused(form, busy); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	seen := httpsafe.Problem{Instance: "k", FirstSeen: time.Unix(0, 0)}
	got := refused(httpsafe.RefusalBody{Body: `["{first_seen}", "{instance}"]`}, seen)
	if want := `["1970-01-01T00:00:00Z","k"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The first case that is there counts. Seen to fail with "retryable" below the status in wordFor, with the class above
// the status, and with words as numbers where Body does not say so.
func TestCasesOfWords(t *testing.T) {
	all := cases{
		"store-unavailable": "slug", "retryable": "again", "503": "status", "5xx": "class", "": "{slug_camel}Other",
	}
	p := httpsafe.Problem{Slug: httpsafe.StoreUnavailable, Status: 503, Retryable: true}
	for _, c := range []struct{ word, then string }{
		{"slug", "store-unavailable"},
		{"again", "retryable"},
		{"status", "503"},
		{"class", "5xx"},
		{"StoreUnavailableOther", ""},
	} {
		form := httpsafe.RefusalBody{
			Body: `["{word}"]`, Words: map[string]cases{"word": maps.Clone(all)},
		}
		if got := refused(form, p); got != `["`+c.word+`"]` {
			t.Errorf("got %s, want %s", got, c.word)
		}
		delete(all, c.then)
	}
	form := httpsafe.RefusalBody{
		Body:  `["{code:number}", "{code}", "{text}"]`,
		Words: map[string]cases{"code": {"4xx": "-32", "5xx": "1e3"}, "text": {"": "{status}"}},
	}
	for status, want := range map[int]string{400: `[-32,"-32","400"]`, 500: `[1e3,"1e3","500"]`, 302: `["302"]`} {
		if got := refused(form, httpsafe.Problem{Slug: "own", Status: status}); got != want {
			t.Errorf("status %d: %s, want %s", status, got, want)
		}
	}
	if got := refused(form, httpsafe.Problem{Status: -1}); got != `["-1"]` { // nothing panics
		t.Error(got)
	}
}

// Seen to fail with each check taken out in turn.
func TestRefusalBodiesAreChecked(t *testing.T) {
	body := func(text string) httpsafe.RefusalBody { return httpsafe.RefusalBody{Body: text} }
	words := func(text, name string, words cases) httpsafe.RefusalBody {
		return httpsafe.RefusalBody{Body: text, Words: map[string]cases{name: words}}
	}
	for text, form := range map[string]httpsafe.RefusalBody{
		"there is no Body: write one":                        {ContentType: "application/json"},
		"Refusal.ContentType: \"a b\" is no media type":      {ContentType: "a b", Body: `{}`},
		"1µs is less than 1s (is the unit missing":           {Body: `{}`, MaxRetryAfter: 1000},
		"Refusal.Body: line 2 is not JSON":                   body("{\"a\": 1,\n\"b\": {status}}"),
		"Refusal.Body: line 1 is not JSON: unexpected end":   body(`{"a": `),
		`"{detail}" is neither a JSON object nor an array`:   body(`"{detail}"`),
		"Body: /a/1/b: there is no placeholder {slgu}; supp": body(`{"a": [0, {"b": "x {slgu} %d"}]}`),
		"there is no placeholder {}":                         body(`["{}"]`),
		`/0: "{slug" has a brace without its other one`:      body(`["a {slug"]`),
		`"} {slug}" has a brace without its other one`:       body(`["a} {slug}"]`),
		"the member /a/{slug} has a brace":                   body(`{"a": {"{slug}": 1}}`),
		"{status:number}: only names in Words":               body(`["{status:number}"]`),
		"Words: kind is not used: write {kind} in Body":      words(`["{slug}"]`, "kind", cases{"": "x"}),
		"Words: detail is the name of a placeholder alread":  words(`["{detail}"]`, "detail", cases{"": "x"}),
		`kind: the case "key-resued" is none: write a slug`:  words(`["{kind}"]`, "kind", cases{"key-resued": "x"}),
		`kind: the case "6xx" is none`:                       words(`["{kind}"]`, "kind", cases{"6xx": "x"}),
		`kind: the case "200" is none`:                       words(`["{kind}"]`, "kind", cases{"200": "x"}),
		`kind, case "5xx": there is no placeholder {kind}`:   words(`["{kind}"]`, "kind", cases{"5xx": "{kind}"}),
		`code, case "4xx": "a" is no number, and Body has`:   words(`["{code:number}"]`, "code", cases{"4xx": "a"}),
		`code, case "": "" is no number`:                     words(`["{code:number}"]`, "code", cases{"": ""}),
		"{code:number} must be all of its string":            words(`["-{code:number}"]`, "code", cases{"": "1"}),
	} {
		if err := checked(form); err == nil || !strings.Contains(err.Error(), "httpsafe: Profile.Refusal") ||
			!strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%+v: %v, want an error with %q", form, err, text)
		}
		problem := httpsafe.Problem{Slug: "own", Status: 400}
		if got, want := refused(form, problem), refused(httpsafe.RefusalBody{}, problem); got != want {
			t.Errorf("%+v is used: %s, want problem details", form, got)
		}
	}
	profile := httpsafe.IETF()
	profile.Statuses = map[httpsafe.Slug]int{httpsafe.KeyReused: 99}
	err := httpsafe.Options{Profile: profile}.Validate()
	if err == nil || !strings.Contains(err.Error(), "Profile.Statuses: key-reused has status 99") {
		t.Errorf("error %v", err)
	}
	profile.Statuses = map[httpsafe.Slug]int{"out-of-stock": 409} // a slug of one's own
	profile.Refusal = words(`["{kind}"]`, "kind", cases{"out-of-stock": "x", "422": "", "4xx": ""})
	if err := (httpsafe.Options{Profile: profile}).Validate(); err != nil {
		t.Error(err)
	}
}

// What a Problem of this package holds has a placeholder. Seen to fail with max_bytes taken out of fieldNames.
func TestEachFieldHasAPlaceholder(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"conflicting_resource_id"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`\.with\("(\w+)"`).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	if len(names) < 9 {
		t.Errorf("found only %v", names)
	}
	for _, name := range names {
		if err := checked(httpsafe.RefusalBody{Body: `["{` + name + `}"]`}); err != nil {
			t.Error(err)
		}
	}
}

// RenderFunc and ReplayFunc come before the data. Seen to fail with the data first in WithDefaults.
func TestFunctionsComeBeforeTheData(t *testing.T) {
	k := newKit(t)
	k.options.Profile = httpsafe.GoCardless()
	k.options.Profile.RenderFunc = func(p httpsafe.Problem) (string, []byte) {
		return "application/xml", []byte("<error>" + p.Title + "</error>")
	}
	k.options.Profile.ReplayFunc = func(r httpsafe.Replayed) *httpsafe.Problem {
		if r.Location == "" {
			return nil
		}
		return &httpsafe.Problem{Slug: "mine", Status: 410, Title: "of mine"}
	}
	k.post("k").want(201)
	k.post("k").want(410).wantBody("<error>of mine</error>").wantHeader("Content-Type", "application/xml")
}

// A profile may serve many requests at once. The race detector watches.
func TestRefusalsAtOnce(t *testing.T) {
	profile := httpsafe.AdCP()
	options := httpsafe.Options{Profile: profile}.WithDefaults()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, p := range everyProblem() {
				options.WriteProblem(httptest.NewRecorder(), p)
			}
		})
	}
	all.Wait()
}

// FuzzRefusalBody: every form renders as JSON, whatever it and the problem hold, and texts arrive as they are. Seen to
// fail with quotes around textOf in place of encoded.
func FuzzRefusalBody(f *testing.F) {
	for _, p := range httpsafe.Profiles() {
		f.Add(p.Refusal.Body, p.Refusal.Words["code"]["key-reused"], "key-reused", "a text", 409)
	}
	f.Add(`[["{word}"], "{word:number}", {"a": "x{{}}{detail}"}]`, "-1", "", "\xff\u2028<\"", 0)
	f.Add(`{"a": {"b": "{reason}"}}`, "{slug", "5xx", "{detail}", -1)
	f.Fuzz(func(t *testing.T, body, word, slug, detail string, status int) {
		form := httpsafe.RefusalBody{Body: body, Words: map[string]cases{}}
		for _, name := range []string{"code", "kind", "word"} {
			if strings.Contains(body, "{"+name) {
				form.Words[name] = cases{"key-reused": word, "5xx": "{slug}" + word, "": word}
			}
		}
		problem := httpsafe.Problem{Slug: httpsafe.Slug(slug), Status: status, Detail: detail}
		got, err := refused(form, problem), checked(form)
		if !json.Valid([]byte(got)) {
			t.Errorf("%q renders as %q, error %v", body, got, err)
		}
		form.Body = `["{detail}", "<{detail}"]`
		form.Words = nil
		var texts []string
		if err := json.Unmarshal([]byte(refused(form, problem)), &texts); err != nil ||
			utf8.ValidString(detail) && !slices.Equal(texts, []string{detail, "<" + detail}) {
			t.Errorf("%q arrives as %q, error %v", detail, texts, err)
		}
	})
}
