package profiles

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// parse reads a file that is right.
func parse(t *testing.T, text string) httpsafe.Profile {
	t.Helper()
	p, err := Parse("acme.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p.Profile
}

// refusal returns what a profile answers with: the lines of the header and the body.
func refusal(p httpsafe.Profile, problem httpsafe.Problem) string {
	w := httptest.NewRecorder()
	httpsafe.Options{Profile: p}.WriteProblem(w, problem)
	var b strings.Builder
	_ = w.Result().Write(&b)
	return b.String()
}

// Every shipped profile, written as a file and read again, is the same profile.
//
// Seen to fail with Adopt left out of Format, with Words left out of it, and with the setting Keep left out.
func TestShippedProfilesAsFiles(t *testing.T) {
	for _, want := range httpsafe.Profiles() {
		t.Run(want.Name, func(t *testing.T) {
			text, err := Format(want)
			if err != nil {
				t.Fatal(err)
			}
			got := parse(t, text)
			for status := 200; status < 600; status++ {
				if got.Class(status) != want.Class(status) {
					t.Errorf("status %d: %v, want %v", status, got.Class(status), want.Class(status))
				}
			}
			if got.Fingerprint.String() != want.Fingerprint.String() {
				t.Errorf("fingerprint: %v, want %v", got.Fingerprint, want.Fingerprint)
			}
			for _, slug := range httpsafe.Slugs() {
				for _, p := range []httpsafe.Problem{
					{Slug: slug, Status: 409, Title: `a "b"`, Detail: "c", Executed: "no", Retryable: true, RetryAfter: 90 * time.Minute},
					{Slug: slug, Status: 503, Title: "{a}", Executed: "unknown", NewKeyRequired: true},
				} {
					if got, want := refusal(got, p), refusal(want, p); got != want {
						t.Errorf("%s: it answers\n%s\nwant\n%s", slug, got, want)
					}
				}
			}
			for _, p := range []*httpsafe.Profile{&got, &want} {
				p.Class, p.Fingerprint, p.Refusal.Body = nil, httpsafe.FingerprintMethod{}, ""
			}
			want.Name = "my-" + want.Name
			want.KeySyntax = want.KeySyntax.WithDefaults()
			got.KeySyntax = got.KeySyntax.WithDefaults()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("it is\n%+v\nwant\n%+v\nfrom\n%s", got, want, text)
			}
		})
	}
}

// Names and words of a Go program are written so that they are read as they were. A profile with functions is refused.
//
// Seen to fail with names that are not quoted, and with the error of Format left out.
func TestFormat(t *testing.T) {
	p := httpsafe.IETF()
	p.Name = "acme"
	p.Refusal = httpsafe.RefusalBody{
		Body:  `["{a: b}", "{# c}"]`,
		Words: map[string]map[string]string{"a: b": {"": "x: y\n\"'"}, "# c": {"": "true"}},
	}
	text, err := Format(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := parse(t, text).Refusal.Words; !reflect.DeepEqual(got, p.Refusal.Words) {
		t.Errorf("words: %q, want %q", got, p.Refusal.Words)
	}
	for name, change := range map[string]func(p *httpsafe.Profile){
		"RenderFunc":  func(p *httpsafe.Profile) { p.RenderFunc = httpsafe.ProblemJSON },
		"ReplayFunc":  func(p *httpsafe.Profile) { p.ReplayFunc = func(httpsafe.Replayed) *httpsafe.Problem { return nil } },
		"Class":       func(p *httpsafe.Profile) { p.Class = func(int) retrysafe.Class { return retrysafe.ClassRelease } },
		"Fingerprint": func(p *httpsafe.Profile) { p.Fingerprint = httpsafe.FingerprintFunc("own", nil) },
	} {
		own := p
		change(&own)
		if text, err := Format(own); err == nil {
			t.Errorf("%s: the file is\n%s", name, text)
		}
	}
}

// A file can say everything that a profile has as data.
func TestEachFieldOfAProfileHasASetting(t *testing.T) {
	set := append(settings.Options(&file{}), "KeySyntax.Form", "KeySyntax.Pattern", "Fingerprint", "Class", "StatusHeader", "HideStatus",
		"Statuses", "Refusal.Body", "Refusal.Words")
	for i, path := range set {
		set[i] = strings.TrimPrefix(path, "Profile.")
	}
	for _, path := range settings.Options(&refusals{}) {
		set = append(set, "Refusal."+path)
	}
	var check func(v reflect.Type, prefix string)
	check = func(v reflect.Type, prefix string) {
		for i := range v.NumField() {
			f := v.Field(i)
			path := prefix + f.Name
			switch {
			case f.Anonymous:
				check(f.Type, prefix)
			case slices.Contains(set, path), f.Type.Kind() == reflect.Func:
			case f.Type.Kind() == reflect.Struct:
				check(f.Type, path+".")
			case path == "Records.Audit": // is for operators, and belongs to the deployment
			default:
				t.Errorf("no setting sets %s", path)
			}
		}
	}
	check(reflect.TypeFor[httpsafe.Profile](), "")
}

// What a file says changes the profile, and nothing else does.
//
// Seen to fail with the places of the base kept beside those of a file, and with Records.Replay kept in profile.
func TestSettings(t *testing.T) {
	ietf := httpsafe.IETF()
	for text, change := range map[string]func(p *httpsafe.Profile){
		"":                            func(*httpsafe.Profile) {},
		"base: adyen":                 func(p *httpsafe.Profile) { *p = httpsafe.Adyen() },
		"key: {header: X-Key}":        func(p *httpsafe.Profile) { p.Header = "X-Key" },
		"key: {body: /id}":            func(p *httpsafe.Profile) { p.Header, p.BodyField = "", "/id" },
		"key: {query: rid}":           func(p *httpsafe.Profile) { p.Header, p.QueryField = "", "rid" },
		"key: {aliases: [X-Key]}":     func(p *httpsafe.Profile) { p.Aliases = []string{"X-Key"} },
		"key: {form: uuid7, max: 36}": func(p *httpsafe.Profile) { p.KeySyntax = httpkey.Syntax{Form: httpkey.UUID7, Max: 36} },
		"base: square\nkey: {header: X-Key}": func(p *httpsafe.Profile) {
			*p = httpsafe.Square()
			p.Profile = p.WithHeader("X-Key").Profile
		},
		"echo_key: false":       func(p *httpsafe.Profile) { p.EchoKey = false },
		"status_header: needed": func(p *httpsafe.Profile) { p.StatusHeader = false },
		"status_header: never":  func(p *httpsafe.Profile) { p.StatusHeader, p.HideStatus = false, true },
		"promised_retention: 48h\nretention: {key: 30d}": func(p *httpsafe.Profile) {
			p.Retention, p.Records.Key = 48*time.Hour, 30*24*time.Hour
		},
		"base: adcp\npromised_retention: 48h": func(p *httpsafe.Profile) {
			*p = httpsafe.AdCP()
			p.Retention, p.Records.Replay = 48*time.Hour, 0
		},
		"accepted_header: 'Result: done'": func(p *httpsafe.Profile) {
			p.AcceptedHeader = httpkey.HeaderLine{Name: "Result", Value: "done"}
		},
		"refusals: {statuses: {key-reused: 409}}": func(p *httpsafe.Profile) {
			p.Statuses = map[httpsafe.Slug]int{httpsafe.KeyReused: 409}
		},
		"base: stripe\nrefusals: {statuses: {key-reused: 409}}": func(p *httpsafe.Profile) {
			*p = httpsafe.Stripe()
			p.Statuses[httpsafe.KeyReused] = 409
		},
		"base: stripe\nrefusals: {words: {kind: {key-reused: taken}}}": func(p *httpsafe.Profile) {
			*p = httpsafe.Stripe()
			p.Refusal.Words["kind"][string(httpsafe.KeyReused)] = "taken"
		},
	} {
		want := ietf
		change(&want)
		want.Name = "acme"
		got := parse(t, "name: acme\n"+text)
		for _, p := range []*httpsafe.Profile{&got, &want} { // functions cannot be compared
			p.Class, p.Fingerprint = nil, httpsafe.FingerprintMethod{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it is\n%+v\nwant\n%+v", text, got, want)
		}
	}
	for text, status := range map[string]retrysafe.Class{
		"keep: successes": retrysafe.ClassRelease,
		"keep: successes\nstatuses: {store: [4xx]}":     retrysafe.ClassStore,
		"statuses: {release: [402]}":                    retrysafe.ClassRelease,
		"base: stripe-v2":                               retrysafe.ClassRelease,
		"base: stripe-v2\nkeep: all":                    retrysafe.ClassStore,
		"base: stripe-v2\nstatuses: {ambiguous: [402]}": retrysafe.ClassAmbiguous,
	} {
		if got := parse(t, "name: acme\n"+text).Class(402); got != status {
			t.Errorf("%s: 402 is %v, want %v", text, got, status)
		}
	}
	for text, method := range map[string]httpsafe.FingerprintMethod{
		"fingerprint: json": httpsafe.FingerprintJSON(), "fingerprint: none": httpsafe.FingerprintNone(), "": {},
		"base: acp": httpsafe.ACP().Fingerprint, "base: acp\nfingerprint: raw": httpsafe.FingerprintRaw(),
	} {
		if got := parse(t, "name: acme\n"+text).Fingerprint; got.String() != method.String() {
			t.Errorf("%s: %v, want %v", text, got, method)
		}
	}
}

// A refusal looks as the file says: values have their types, members without a value are left out, the first case
// counts.
func TestRefusals(t *testing.T) {
	p := parse(t, `
name: acme
refusals:
  content_type: application/vnd.acme+json
  body:
    fault: {code: '{code}', text: '{detail} ({{{status})', status: '{status}', again: '{retryable}', wait: '{retry_after}'}
    links: ['{type}']
    version: 2
  words:
    code: {key-reused: KEY_TAKEN, retryable: AGAIN, 5xx: INTERNAL, default: '{slug_upper}'}
`)
	for _, c := range []struct {
		problem httpsafe.Problem
		want    string
	}{
		{
			httpsafe.Problem{Slug: httpsafe.KeyReused, Status: 422, Detail: "taken"},
			`{"fault":{"code":"KEY_TAKEN","text":"taken ({422)","status":422,"again":false},"links":["TYPE"],"version":2}`,
		},
		{
			httpsafe.Problem{Slug: httpsafe.RequestInFlight, Status: 409, Detail: "d", Retryable: true, RetryAfter: time.Second},
			`{"fault":{"code":"AGAIN","text":"d ({409)","status":409,"again":true,"wait":1},"links":["TYPE"],"version":2}`,
		},
		{
			httpsafe.Problem{Slug: httpsafe.OutcomeUnknown, Status: 500},
			`{"fault":{"code":"INTERNAL","text":" ({500)","status":500,"again":false},"links":["TYPE"],"version":2}`,
		},
		{
			httpsafe.Problem{Slug: httpsafe.KeyMissing, Status: 400},
			`{"fault":{"code":"KEY_MISSING","text":" ({400)","status":400,"again":false},"links":["TYPE"],"version":2}`,
		},
	} {
		got := refusal(p, c.problem)
		_, body, _ := strings.Cut(got, "\r\n\r\n")
		c.want = strings.ReplaceAll(c.want, "TYPE", "/.well-known/idempotency-policy#"+string(c.problem.Slug))
		if strings.TrimSpace(body) != c.want || !json.Valid([]byte(body)) {
			t.Errorf("%s: the body is\n%s\nwant\n%s", c.problem.Slug, body, c.want)
		}
		if !strings.Contains(got, "Content-Type: application/vnd.acme+json\r\n") {
			t.Errorf("%s: the content type is missing in\n%s", c.problem.Slug, got)
		}
	}
}

// What is wrong is said with its place, all of it at once.
//
// Seen to fail with hasBareBraces returning false.
func TestFaults(t *testing.T) {
	for text, says := range map[string]string{
		"{}":                          "acme.yaml: name is missing",
		"name: stripe":                "acme.yaml:1:7: stripe is the name of a profile of Retrysafe",
		"name: a b":                   "has other signs than letters",
		"name: acme\nbase: strype":    "did you mean stripe?",
		"name: acme\nbase: ../x.yaml": "is not a known value",
		"name: acme\nbase: none":      "methods is missing",
		"name: acme\nbase: none\nmethods: [POST]":                                  "key says no place",
		"name: acme\nheader: X":                                                    `the profile has no field "header"`,
		"name: acme\nkey: X-Key":                                                   "key must be a mapping",
		"name: acme\nkey: {header: 'X Key'}":                                       "acme.yaml:2:15: \"X Key\" is no name of a header field",
		"name: acme\nkey: {form: guid}":                                            "is not a known value",
		"name: acme\nkey: {min: 300}":                                              "acme.yaml:2:12: no key is long enough and short enough",
		"name: acme\nkey: {max: 5000}":                                             "is not a number from 1 to",
		"name: acme\nkey: {pattern: '('}":                                          "missing closing )",
		"name: acme\nmethods: [post]":                                              "methods are written in capitals",
		"name: acme\nmethods: [GET]":                                               "GET needs no key",
		"name: acme\nkeep: some":                                                   "is not a known value",
		"name: acme\nstatuses: {release: [200]}":                                   "would run the operation again",
		"name: acme\nfingerprint: md5":                                             "is not a known value",
		"name: acme\nfingerprint: {include: [/a], exclude: [/b]}":                  "needs either include or exclude",
		"name: acme\necho: [/id]":                                                  "a retry with another /id would be a mismatch",
		"name: acme\nbase: jsonrpc\nfingerprint: raw":                              "acme.yaml:3:14: a retry with another /id would be a mismatch",
		"name: acme\nbase: adcp\npromised_retention: 60d":                          "acme.yaml:3:21: answers cannot be replayed for 1440h0m0s",
		"name: acme\nretention: {key: 1h}":                                         "answers cannot be replayed for 24h0m0s",
		"name: acme\nstatus_header: sometimes":                                     "is not a known value",
		"name: acme\naccepted_header: Accepted":                                    "is no header line",
		"name: acme\nrefusals: {statuses: {key-used: 409}}":                        `refusals.statuses has no field "key-used"`,
		"name: acme\nrefusals: {statuses: {key-reused: 200}}":                      "is no status of a refusal",
		"name: acme\nrefusals: {body: '{detail}'}":                                 "the body must be a mapping or a list",
		"name: acme\nrefusals: {content_type: json}":                               "is no media type",
		"name: acme\nrefusals:\n  body: {a: '{detial}'}":                           "acme.yaml:3:10: refusals.body: /a: there is no placeholder {detial}",
		"name: acme\nrefusals:\n  body: {a: [{detail}]}":                           "acme.yaml:3:15: braces without quotes are a mapping in YAML",
		"name: acme\nrefusals:\n  body: {a: '{b}'}\n  words: {b: {4xx: {slug}}}":   "write '{slug}'",
		"name: acme\nrefusals:\n  body: {a: '{a'}":                                 "refusals.body: /a",
		"name: acme\nrefusals:\n  words: {code: {4xx: a}}":                         "acme.yaml:3:11: refusals",
		"name: acme\nrefusals:\n  body: {a: '{code}'}\n  words: {code: {used: a}}": "acme.yaml:4:11: refusals.words: code: the case \"used\" is none",
		"name: acme\nrefusals:\n  body: {a: '{slug}'}\n  words: {code: {4xx: a}}":  "refusals.words: code is not used",
		"name: acme\nrefusals:\n  body: {a: '{slug}'}\n  words: {slug: {4xx: a}}":  "slug is the name of a placeholder already",
		"name: acme\nrefusals:\n  body: {a: '{code}'}\n  words: {code: a}":         "refusals.words.code must be a mapping",
		"name: acme\nmarker_field: replayed":                                       "it begins with a slash: /replayed",
		"name: acme\nkeep: all\nbase: stripe\nretries_500: 11":                     "is not a number from 1 to 10",
		"- name": "the profile must be a mapping",
	} {
		_, err := Parse("acme.yaml", []byte(text))
		switch {
		case err == nil:
			t.Errorf("%q is accepted", text)
		case !strings.Contains(err.Error(), says):
			t.Errorf("%q: it says\n%v\nwant\n%s", text, err, says)
		case strings.Contains(err.Error(), "Profile."), strings.Contains(err.Error(), "httpsafe:"):
			t.Errorf("%q: it speaks of Go: %v", text, err)
		}
	}
	parse(t, "name: acme\nrefusals: {body: {id: null, e: '{slug}', empty: {}}}")
	_, err := Parse("acme.yaml", []byte("name: a b\nkeep: some\nmethods: [post]"))
	if n := strings.Count(err.Error(), "acme.yaml:"); n != 3 {
		t.Errorf("%d faults are said, want 3: %v", n, err)
	}
}

// No text makes the reader panic, and what it accepts is a profile that can be used.
func FuzzParse(f *testing.F) {
	for _, p := range httpsafe.Profiles() {
		text, err := Format(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add("name: a\nrefusals: {body: [1, {a: '{slug}'}, null, 1.5e3], words: {x: {default: y}}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("acme.yaml", []byte(text))
		if err != nil {
			return
		}
		if err := (httpsafe.Options{Profile: p.Profile}).Validate(); err != nil {
			t.Errorf("%q is accepted: %v", text, err)
		}
		refusal(p.Profile, httpsafe.Problem{Slug: httpsafe.KeyReused, Status: 422})
	})
}
