package httpclient_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
)

func TestProfileFromObserved(t *testing.T) {
	const begin = `{"schema":"retrysafe-observed/1","profile":`
	for _, c := range []struct {
		name, json    string
		header, field string
		form          httpkey.Form
		max           int
		marker        string
	}{
		{"nothing seen", `"stripe"}`, "Idempotency-Key", "", httpkey.Bare, 255, "Idempotent-Replayed"},
		{
			"another header", `"ietf","header":"X-Request-Key"}`, "X-Request-Key", "", httpkey.StringOrBare, 255,
			"Idempotent-Replayed",
		},
		{"a member", `"ietf","member":"a/b~"}`, "", "/a~1b~0", httpkey.StringOrBare, 255, "Idempotent-Replayed"},
		{
			"a header in place of the member", `"square","header":"Idempotency-Key"}`, "Idempotency-Key", "",
			httpkey.Text, 45, "",
		},
		{"a deep member", `"ietf","pointer":"/a/b~1c"}`, "", "/a/b~1c", httpkey.StringOrBare, 255, "Idempotent-Replayed"},
		{"aws in the body", `"aws","member":"ClientToken"}`, "", "/ClientToken", httpkey.Bare, 64, ""},
		{
			"quotes do not work", `"ietf","quoted":false,"bare":true}`, "Idempotency-Key", "", httpkey.Bare, 255,
			"Idempotent-Replayed",
		},
		{
			"quotes are part of the key", `"ietf","quoted":true,"bare":true,"same_quoted":false}`, "Idempotency-Key", "",
			httpkey.Bare, 255, "Idempotent-Replayed",
		},
		{
			"only quotes work", `"stripe","quoted":true,"bare":false}`, "Idempotency-Key", "", httpkey.StringOnly, 255,
			"Idempotent-Replayed",
		},
		{
			"UUIDs", `"stripe","uuid_only":true,"quoted":false,"bare":false}`, "Idempotency-Key", "", httpkey.UUID4,
			255, "Idempotent-Replayed",
		},
		{
			"shorter, another marker", `"ietf","max_key":64,"marker":"X-Again"}`, "Idempotency-Key", "",
			httpkey.StringOrBare, 64, "X-Again",
		},
		{"longer than it promises", `"adyen","max_key":256}`, "Idempotency-Key", "", httpkey.Bare, 64, ""},
		{
			"what we do not know", `"ietf","news":[1,{"a":2}]}`, "Idempotency-Key", "", httpkey.StringOrBare, 255,
			"Idempotent-Replayed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := httpclient.ProfileFromObserved(strings.NewReader(begin + c.json))
			if err != nil {
				t.Fatal(err)
			}
			if p.Header != c.header || p.BodyField != c.field || p.QueryField != "" || p.KeySyntax.Form != c.form ||
				p.KeySyntax.Max != c.max || p.Marker != c.marker {
				t.Errorf("%+v", p)
			}
			if err := (httpclient.Options{Profile: p}).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	for says, text := range map[string]string{
		"not the JSON":        `observed`,
		"its schema is":       `{}`,
		"this version reads":  `{"schema":"retrysafe-observed/2","profile":"ietf"}`,
		`member "observed"`:   `{"schema":"retrysafe-probe-report/1"}`,
		"speaks grpc":         begin + `"ietf","protocol":"grpc"}`,
		"unsupported profile": begin + `"acme"}`,
		"neither quoted":      begin + `"ietf","quoted":false,"bare":false}`,
		"something follows":   begin + `"ietf"} {}`,
	} {
		if _, err := httpclient.ProfileFromObserved(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A key in the query is not sent in the header of the profile. Seen to fail with Query taken out of observed.
func TestObservedKeyInTheQuery(t *testing.T) {
	p, err := httpclient.ProfileFromObserved(strings.NewReader(
		`{"schema":"retrysafe-observed/1","profile":"ietf","query":"idempotency_key"}`))
	if err != nil || p.QueryField != "idempotency_key" || p.Header != "" || p.BodyField != "" {
		t.Errorf("%+v, %v", p, err)
	}
}
