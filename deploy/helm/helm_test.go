//go:build unix

// Package helm_test checks the chart.
package helm_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// Run the test with -write after a change of the proxy's settings.
var write = flag.Bool("write", false, "write the proxy's settings into values.schema.json")

// The schema of the chart's values has the settings of the proxy, so Helm refuses one that does not exist before
// anything is installed. With RETRYSAFE_SOAK above 1, the chart is linted and rendered in both forms, and with a
// file: each object is decoded strictly into its type of Kubernetes, pods meet the standard "restricted", and the
// proxy accepts its file. Values that would protect nothing are refused.
//
// Seen to fail with reconcile taken out of values.schema.json, with "fsgroup" for fsGroup in gateway.yaml, with
// readOnlyRootFilesystem and with capabilities taken out of the container, with "listens" for listen, with each fail of
// the templates taken out, with ext_proc taken out of the condition of a fail, and with the mode of secrets 0440.
func TestSoakChart(t *testing.T) {
	program, err := servers.Retrysafe()
	must(t, err)
	checkSchema(t, program)
	if soak.Times(t, 1) == 1 {
		return // Helm and the types of Kubernetes take minutes to compile
	}
	check := filepath.Join(t.TempDir(), "check")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", check, ".")
	build.Dir, build.Env = "testdata/check", append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	everything, err := os.ReadFile("testdata/gateway.yaml")
	must(t, err)
	blocks, err := pages.Read("../../docs/kubernetes.md")
	must(t, err)
	shown := map[string]string{}
	for _, block := range blocks {
		shown[filepath.Dir(block.File)] = block.Text
	}
	for name, c := range map[string]struct {
		chart  string
		values string
		has    []string // in what is rendered
		says   string   // why it is refused
	}{
		"a gateway": {"retrysafe", string(everything), []string{
			"kind: Deployment", "kind: PodDisruptionBudget", "kind: ServiceMonitor", "kind: PrometheusRule",
			"alert: RetrysafeDown", "grafana_dashboard", "readOnlyRootFilesystem: true", "automountServiceAccountToken: false",
			"secretKeyRef: {name: retrysafe, key: store}", "retrysafe@sha256:0123", "admin: :8081", "team: payments",
		}, ""},
		"the page's gateway": {"retrysafe", shown["gateway"], []string{"registry.example.com/retrysafe:0.1.0"}, ""},
		"the page's volume":  {"retrysafe", shown["volume"], []string{"type: Recreate", "kind: PersistentVolumeClaim"}, ""},
		"the page's sidecar": {
			"testdata/shop", shown["sidecar"], []string{"restartPolicy: Always", "targetPort: http", "listen: :8080"}, "",
		},
		"a service of Envoy's": {
			"retrysafe", "config: {ext_proc: true}\nenv: {RETRYSAFE_STORE: {secret: a, key: b}}", []string{"ext_proc: true"}, "",
		},
		"secrets of a sidecar": {
			"testdata/shop", shown["sidecar"] + "  secretFiles: certificates\n", []string{"defaultMode: 0444"}, "",
		},
		"no upstream":      {"retrysafe", "env: {RETRYSAFE_STORE: {secret: a, key: b}}", nil, "config.upstream is missing"},
		"no store":         {"retrysafe", "config: {upstream: 'http://api:3000'}", nil, "no store that outlives the pods"},
		"memory":           {"retrysafe", "config: {upstream: 'http://a', store: 'memory:'}", nil, "no store that outlives"},
		"a shared file":    {"retrysafe", "config: {upstream: 'http://a'}\npersistence: {enabled: true}", nil, "set replicas to 1"},
		"an unknown value": {"retrysafe", "replica: 1", nil, "replica"},
		"a misspelling":    {"retrysafe", "config: {upstreams: 'http://api:3000'}", nil, "upstreams"},
		"a fixed setting":  {"retrysafe", "config: {listen: ':80'}", nil, "listen"},
	} {
		t.Run(name, func(t *testing.T) {
			values, proxyFile := filepath.Join(t.TempDir(), "values.yaml"), filepath.Join(t.TempDir(), "proxy.yaml")
			must(t, os.WriteFile(values, []byte(c.values), 0o600))
			out, err := exec.CommandContext(t.Context(), check, c.chart, values, proxyFile).CombinedOutput()
			if c.says != "" {
				if err == nil || !strings.Contains(string(out), c.says) {
					t.Errorf("got %v, want %q:\n%s", err, c.says, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range c.has {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
			checked := exec.CommandContext(t.Context(), program, "proxy", "--config", proxyFile, "--check", "--offline")
			checked.Env = append(os.Environ(), "RETRYSAFE_STORE=postgres://app@db/shop", "FINGERPRINT_SECRET=0123456789abcdef")
			if out, err := checked.CombinedOutput(); err != nil {
				t.Errorf("the proxy refuses its file: %v\n%s", err, out)
			}
		})
	}
}

// checkSchema compares the settings of the proxy in the schema of the chart with those that the proxy prints, without
// those that belong to the chart.
func checkSchema(t *testing.T, program string) {
	t.Helper()
	printed, err := exec.CommandContext(t.Context(), program, "proxy", "--schema").Output()
	must(t, err)
	var settings, values map[string]any
	must(t, json.Unmarshal(printed, &settings))
	const file = "retrysafe/values.schema.json"
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, json.Unmarshal(text, &values))
	values["$defs"] = settings["$defs"]
	for _, name := range []string{"$schema", "$defs", "title", "required"} {
		delete(settings, name)
	}
	properties := settings["properties"].(map[string]any)
	delete(properties, "listen")
	delete(properties, "admin")
	values["properties"].(map[string]any)["config"] = settings
	withoutTexts(values)
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	must(t, encoder.Encode(values))
	if *write {
		must(t, os.WriteFile(file, want.Bytes(), 0o644))
	} else if !bytes.Equal(text, want.Bytes()) {
		t.Errorf("%s is not what the proxy says; run go test ./deploy/helm -write", file)
	}
}

// withoutTexts takes out what a schema says to a reader; docs/proxy-configuration.md has it.
func withoutTexts(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		for name, value := range schema {
			if _, isText := value.(string); isText && name == "description" {
				delete(schema, name)
			}
			withoutTexts(value)
		}
	case []any:
		for _, value := range schema {
			withoutTexts(value)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
