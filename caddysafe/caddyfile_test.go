package caddysafe_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/retrysafe/retrysafe/caddysafe"
)

func TestTheCaddyfileHasTheOptionsOfTheJSON(t *testing.T) {
	h := new(caddysafe.Handler)
	err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(`retrysafe {
		store keys.db
		scope header:X-Tenant
		profile stripe
		required
		retention 2d
		lease 1m
		timeout 30s
		wait 10s
	}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"store":"keys.db","scope":"header:X-Tenant","profile":"stripe","required":true,` +
		`"retention":172800000000000,"lease":60000000000,"timeout":30000000000,"wait":10000000000}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for options, want := range map[string]string{
		"stor keys.db":                        `unknown option "stor"`,
		"required yes":                        "wrong argument count",
		"store":                               "wrong argument count",
		"lease soon":                          "lease: ",
		"scope none":                          "store is missing",
		"store keys.db\nscope tenant":         `unsupported scope "tenant"`,
		"store mysql://db/shop":               `unsupported store scheme "mysql"`,
		"store keys.db\nprofile nobody":       "nobody",
		"store keys.db\nlease 1ms":            "Lease",
		"store postgres://u:secret@[::1/db":   "caddysafe: ",
		"store redis://u:secret@host:badport": "caddysafe: ",
	} {
		h := new(caddysafe.Handler)
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("retrysafe {\n" + options + "\n}"))
		if err == nil {
			ctx, stop := caddy.NewContext(caddy.Context{Context: t.Context()})
			err = h.Provision(ctx)
			stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", options, err, want)
		}
		if err := h.Cleanup(); err != nil {
			t.Errorf("%s: %v", options, err)
		}
	}
}
