package recipe

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// rulesFrom returns the rules of a file.
func rulesFrom(t *testing.T, text string) (profile.Rules, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "acme.yaml")
	if err := os.WriteFile(path, []byte("name: acme\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadRules(path)
}

// A file has the rules of its base, except for what it says otherwise.
//
// Seen to fail with each of keyRules, statusRules and replayRules taken out.
func TestRulesOfAProfileFile(t *testing.T) {
	for text, change := range map[string]func(r *profile.Rules){
		"":                                        func(*profile.Rules) {},
		"base: paypal":                            func(r *profile.Rules) { *r, _ = profile.Of("paypal") },
		"base: ucp":                               func(r *profile.Rules) { *r, _ = profile.Of("ucp") },
		"key: {header: X-Key}":                    func(r *profile.Rules) { r.Header = "X-Key" },
		"key: {body: /a~1b}":                      func(r *profile.Rules) { r.Header, r.Member = "", "a/b" },
		"key: {form: string}":                     func(r *profile.Rules) { r.Bare = profile.Refused },
		"key: {form: bare, max: 99}":              func(r *profile.Rules) { r.Quoted, r.Quotes, r.MaxKey = false, profile.Open, 99 },
		"key: {pattern: '[a-f0-9-]+'}":            func(r *profile.Rules) { r.MaxKey = 36 },
		"key: {body: /meta/id}":                   func(r *profile.Rules) { r.Header, r.Pointer = "", "/meta/id" },
		"key: {query: rid}":                       func(r *profile.Rules) { r.Header, r.Query = "", "rid" },
		"methods: [PUT]":                          func(r *profile.Rules) { r.Methods = []string{"PUT"} },
		"marker: Again":                           func(r *profile.Rules) { r.Marker, r.MarkerNeeded = "Again", true },
		"scope_route: true":                       func(r *profile.Rules) { r.ByRoute = true },
		"fingerprint: none":                       func(r *profile.Rules) { r.Compares = false },
		"ignore_body: true":                       func(r *profile.Rules) { r.Compares = false },
		"fingerprint: {exclude: [/at]}":           func(r *profile.Rules) { r.LooseBody = true },
		"fingerprint: {numbers: double}":          func(r *profile.Rules) { r.Doubles = true },
		"marker_field: /again":                    func(r *profile.Rules) { r.SameBytes = false },
		"redact: [/card/number]":                  func(r *profile.Rules) { r.SameBytes = false },
		"keep: all":                               func(r *profile.Rules) { r.KeepsErrors = true },
		"base: stripe\nkeep: successes":           func(r *profile.Rules) { *r, _ = profile.Of("stripe"); r.KeepsErrors = false },
		"base: gocardless\nrefuse_replays: false": func(r *profile.Rules) { *r, _ = profile.Of("gocardless"); r.Replays = true },
		"refusals: {statuses: {key-reused: 409, key-expired: 410}}": func(r *profile.Rules) {
			r.Mismatch, r.Expired = []int{409}, []int{410}
		},
		"refusals: {body: {a: '{slug}'}}": func(r *profile.Rules) { r.Problem = false },
		"base: square\nrefusals: {body: {a: '{slug}'}}": func(r *profile.Rules) {
			*r, _ = profile.Of("square")
			r.MismatchText, r.CallersFault = "", ""
		},
		"retry_header: Again": func(r *profile.Rules) { r.NoRetry = wire.HeaderLine{Name: "Again", Value: "false"} },
		"accepted_header: 'Did: yes'\nrejected_header: 'Did: no'": func(r *profile.Rules) {
			r.Marker, r.MarkerValue, r.MarkerNeeded, r.RefusalValue = "Did", "yes", true, "no"
		},
	} {
		got, err := rulesFrom(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want, _ := profile.Of("ietf")
		change(&want)
		want.Name, want.Base, want.Title = "acme", got.Base, got.Title
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the rules are\n%+v\nwant\n%+v", text, got, want)
		}
	}
	if r, err := rulesFrom(t, "base: adyen"); err != nil || r.Base != "adyen" {
		t.Errorf("the base is %q: %v", r.Base, err)
	}
	_, err := rulesFrom(t, "key: {pattern: '[0-9]+'}")
	if err == nil || !strings.Contains(err.Error(), "the probe's keys are UUIDs") {
		t.Errorf("keys that no UUID can be: %v", err)
	}
}

// A recipe names a profile's file, relative to itself. The place of the key is the recipe's, or else the file's.
//
// Seen to fail with the path left as it is in profile, and with KeyQuery left out of WithKeyPlace.
func TestARecipeWithAProfileFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"body.yaml": "name: acme\nkey: {body: /meta/id}\n", "query.yaml": "name: acme\nkey: {query: rid}\n",
		"wrong.yaml": "name: acme\nbase: strype\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parse := func(lines string) (*File, error) {
		return Parse(filepath.Join(dir, "recipe.yaml"), []byte(lines+
			"\ntarget: http://127.0.0.1:1\nrequest: {path: /pay, body: '{\"a\": \"{{uuid}}\"}', headers: {Content-Type: application/json}}"+
			"\nidentity: {pointer: /id}\n"), variablesOf)
	}
	for lines, place := range map[string]string{
		"profile: ./body.yaml": "/meta/id||", "profile: ./query.yaml": "|rid|",
		"profile: ./body.yaml\nkey_header: X-Key": "||X-Key", "key_query: q\nprofile: ./body.yaml": "|q|",
	} {
		f, err := parse(lines)
		if err != nil {
			t.Errorf("%s: %v", lines, err)
			continue
		}
		r := f.Recipe.WithKeyPlace()
		want(t, lines, r.KeyBody+"|"+r.KeyQuery+"|"+r.KeyHeader, place)
		want(t, "profile", r.Profile+" "+r.Declared().Name, "acme acme")
	}
	_, err := parse("profile: ./wrong.yaml")
	wantText(t, "error", err.Error(), "recipe.yaml:1:10: ", "wrong.yaml:2:7: ", "did you mean stripe?")

	f, err := parse("profile: stripe")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetProfile(filepath.Join(dir, "query.yaml")); err != nil {
		t.Error(err)
	}
	want(t, "by flag", f.Recipe.WithKeyPlace().KeyQuery+" "+f.Recipe.Declared().Name, "rid acme")
	if err := f.SetProfile("adyen"); err != nil || f.Recipe.WithKeyPlace().KeyQuery != "" || f.Recipe.Declared().Name != "adyen" {
		t.Errorf("by flag: %+v, %v", f.Recipe, err)
	}
	wantText(t, "error", f.SetProfile("strype").Error(), "there is no such profile for HTTP; supported: ")
}
