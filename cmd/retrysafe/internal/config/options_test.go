package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
	"github.com/retrysafe/retrysafe/proxy"
)

// inOtherWays are options of the library that the file sets without a field of their own, and that say how.
var inOtherWays = map[string]string{
	"Default": "defaults", "Routes": "routes", "Upstream.TLS": "upstream.ca",
	"Observer": "the log and the metrics", "ErrorLog": "the log", "TraceFunc": "traces", "Transport": "upstream", "Unkeyed": "ext_proc",
	"Observation": "mode", "Route.Observed": "mode", "Route.EnforceFor": "enforce_for",

	"Route.Pattern": "the name of the route", "Route.Unguarded": "guarded", "Route.BodyTimeout": "limits.body_timeout",
	"Route.HTTP.Profile.Header": "key.header", "Route.HTTP.Profile.Aliases": "profile", "Route.HTTP.KeySource": "key",
	"Route.HTTP.Profile.BodyField": "key.body", "Route.HTTP.Profile.QueryField": "key.query",
	"Route.HTTP.Required": "required", "Route.HTTP.Fingerprint": "fingerprint", "Route.HTTP.Secret": "secret",
	"Route.HTTP.FingerprintVersion": "how requests are sent, which the proxy knows", "Route.HTTP.Route": "the name of the route",
	"Route.HTTP.QuotaFunc": "limits.keys_per_caller", "Route.HTTP.MemoryFunc": "limits.memory",
	"Route.HTTP.CompletedElsewhere": "complete", "Route.HTTP.BufferFlushes": "stream", "Route.HTTP.StatusPath": "in_flight",
	"Route.HTTP.Inbox": "accept", "Route.HTTP.InFlightStatus": "in_flight", "Route.HTTP.RespondAsync": "in_flight", "Route.HTTP.PolicyURL": "public_url",
	"Route.HTTP.KeyPages": "dashboard.url", "Route.HTTP.VerifyFunc": "verify", "Route.Scope": "verify",
	"Route.HTTP.Profile.Class": "statuses", "Route.Policy.OnInFlight": "in_flight",
	"Route.HTTP.Profile.Fingerprint": "fingerprint", "Route.HTTP.Profile.Ambiguous": "ambiguous",
	"Route.HTTP.Profile.Records": "retention",
	"Route.Policy.Retention":     "retention", "Route.Policy.FailureRetention": "failure_retention",
}

// ofTheProfile are options that belong to the conventions of a family of APIs, which profile chooses as a whole.
var ofTheProfile = strings.Fields(`FirstSent KeySyntax Retention Retries500 AcceptedHeader IgnoreBody StatusHeader HideStatus
	Name EchoKey OriginalHeader RejectedHeader RetryHeader RefuseReplays ReplayFunc Location303 Statuses Refusal RenderFunc
	Lifetime`)

// Each option of the library can be set in the file. Seen to fail with an option added to httpsafe.Options, and with
// the field any_host taken out.
func TestEachOptionHasAField(t *testing.T) {
	known := maps.Clone(inOtherWays)
	for _, name := range ofTheProfile {
		known["Route.HTTP.Profile."+name] = "profile"
	}
	set := func(prefix string, v any) {
		for _, path := range settings.Options(v) {
			path = prefix + path
			if other, ok := known[path]; ok {
				t.Errorf("%s has a field, and is said to be set by %s", path, other)
			}
			known[path] = "a field"
		}
	}
	set("", &Config{})
	set("Route.", &Route{})
	var missing []string
	all := append(options(reflect.TypeFor[proxy.Options](), ""), options(reflect.TypeFor[proxy.Route](), "Route.")...)
	for _, path := range all {
		if _, ok := known[path]; !ok {
			missing = append(missing, path)
		}
	}
	for path := range inOtherWays {
		if !slices.Contains(all, path) {
			t.Errorf("%s is said to be set in another way, and is no option", path)
		}
	}
	if len(missing) > 0 {
		t.Errorf("the file cannot set %s", strings.Join(missing, ", "))
	}
}

// options returns the paths of the options in a struct. A Retention is one option, and so is what is no struct of the
// library's options.
func options(of reflect.Type, prefix string) (all []string) {
	nested := []string{"Upstream", "Limits", "HTTP", "Profile", "Policy", "InboxAnswer"}
	for i := range of.NumField() {
		switch f := of.Field(i); {
		case !f.IsExported():
		case f.Anonymous:
			all = append(all, options(f.Type, prefix)...)
		case f.Type.Kind() == reflect.Struct && slices.Contains(nested, f.Name):
			all = append(all, options(f.Type, prefix+f.Name+".")...)
		default:
			all = append(all, prefix+f.Name)
		}
	}
	return all
}
