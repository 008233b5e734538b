package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
)

// fileSchema returns what checks the text of a file by the schema, as an editor does.
func fileSchema(t *testing.T) func(text string) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("proxy.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("proxy.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		t.Helper()
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
		if err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(value)
	}
}

// An editor accepts what the proxy accepts: each configuration on the pages, one with every setting, and what --check
// prints.
//
// Seen to fail with a route that must be a mapping, with a URL refused in place of the mapping upstream, and with sizes
// that must be text.
func TestTheSchemaAcceptsConfigurations(t *testing.T) {
	check := fileSchema(t)
	c := mustParse(t, full)
	if err := c.FillIn(); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"every setting": full, "what is in force": c.Effective(), "nothing": "{}"}
	paths, err := pages.All("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if _, err := Parse(b.At(), []byte(b.Text)); b.Lang == "yaml" && err == nil {
				texts[b.At()] = b.Text
			}
		}
	}
	if len(texts) < 8 {
		t.Errorf("%d configurations found, want those of the pages", len(texts))
	}
	for name, text := range texts {
		if err := check(text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// An editor marks what is wrong with one setting alone.
//
// Seen to fail with additional properties allowed, and with the forms left out.
func TestTheSchemaRefusesMistakes(t *testing.T) {
	check := fileSchema(t)
	for _, text := range []string{
		"listn: ':8080'", "listen: localhost", "upstream: localhost:3000", "upstream: {url: http://x, cert: a}",
		"scope: user", "grace: 10", "grace: 10 seconds", "h2c: maybe", "secret: s3cret", "log: xml",
		"limits: {concurrent: 0}", "limits: 500", "defaults: {max_request: 1MB}", "defaults: {profile: strype}",
		"defaults: {methods: [post]}", "defaults: {in_flight: wait}", "defaults: {abandoned: reconcile}",
		"defaults: {fingerprint: md5}", "defaults: {fingerprint: {include: [a.b]}}", "defaults: {key: {natural: {id: a}}}",
		"defaults: {retention: 72h}", "routes: {POST /a: {requierd: true}}", "routes: {POST /a: required}",
		"routes: {POST /a: {attempts: 11}}", "defaults: {verify: stripe}",
		"defaults: {verify: {stripe: {secret: s3cret}}}", "defaults: {verify: {github: {tolerance: 5m}}}", "routes: [a]",
	} {
		if check(text) == nil {
			t.Errorf("%q is accepted", text)
		}
		if _, err := Parse("proxy.yaml", []byte(text+"\n")); err == nil {
			t.Errorf("%q is accepted by the proxy: the schema is stricter", text)
		}
	}
}

// Editors show what a setting is for and what holds without it.
//
// Seen to fail with defaults that are always text.
func TestTheSchemaDescribes(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			Description string
			Default     any
		}
		Defs struct {
			Route struct {
				Properties map[string]struct{ Default any }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(Schema()), &s); err != nil {
		t.Fatal(err)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
	want(t, "default", s.Properties["h2c"].Default, any(false))
	want(t, "default of a route", s.Defs.Route.Properties["attempts"].Default, any(1.0))
	want(t, "default of the library", s.Defs.Route.Properties["lease"].Default, any("30s"))
}
