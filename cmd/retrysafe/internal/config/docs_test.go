package config

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Run the test with -write to bring the page up to date.
var write = flag.Bool("write", false, "write the fields into the page")

const page = "../../../../docs/proxy-configuration.md"

// The page describes each field with its default, as the comments of the settings and the defaults in force have them.
//
// Seen to fail with another default, and with a setting that has no comment.
func TestThePageDescribesEachField(t *testing.T) {
	read, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	top := describe()
	defaults := slices.IndexFunc(top, func(e settings.Entry) bool { return e.Name == "defaults" })
	route := top[defaults].Inner
	top[defaults].Inner = nil
	text := string(read)
	for mark, entries := range map[string][]settings.Entry{"fields": top, "route": route} {
		if text, err = settings.Insert(text, mark, entries); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case text == string(read):
	case *write:
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the settings; run go test ./internal/config -write in cmd/retrysafe. Want\n%s", page, text)
	}
}

// The page about reloading names each setting that a running proxy cannot change.
//
// Seen to fail with dashboard, metrics_scan and ext_proc left out of the page.
func TestThePageAboutReloadingNamesWhatIsFixed(t *testing.T) {
	read, err := os.ReadFile("../../../../docs/reload.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(read), "These settings are fixed while the proxy runs")
	list, _, _ := strings.Cut(after, "\n\n")
	fixed := 0
	check := func(e settings.Entry, names ...string) {
		if !strings.HasSuffix(e.Text, " takes a restart.") {
			return
		}
		fixed++
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(list, "`"+name+"`") }) {
			t.Errorf("the page does not name %s", names)
		}
	}
	for _, e := range describe() {
		check(e, e.Name)
		for _, in := range e.Inner {
			check(in, e.Name+"."+in.Name, e.Name)
		}
	}
	if fixed < 15 {
		t.Errorf("only %d settings are fixed", fixed)
	}
}

// The help of a flag is the first sentence about its setting, and the default.
//
// Seen to fail with the marks of Markdown left in, and with the default of a setting in its text left out.
func TestHelp(t *testing.T) {
	for name, says := range map[string]string{
		"grace": "How long to wait for running operations at shutdown. Default 30s.",
		"admin": "The address that serves /healthz and /readyz, and what tail and stats read. Default: off.",
		"h2c":   "Accept HTTP/2 without TLS.",
		"auth": "A URL that decides whether the caller has access, before a key is claimed or an answer replayed: see " +
			"a revoked login. Default: none.",
		"tls.cert":     "The file of the certificate chain.",
		"limits":       "What clients can make the proxy hold at most.",
		"upstream.url": "Where requests go: http://host:port, https://host or h2c://host:port, and perhaps a path.",
	} {
		want(t, name, Help(name), says)
	}
}
