package judges

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func mcpServer() suite {
	const guarded = "store: 'memory:'\nscope: none\nroutes:\n  POST /: {profile: jsonrpc}\n"
	return suite{
		id: "mcp", name: "MCP's conformance suite, of the server of MCP's Go SDK", license: "MIT",
		source:  "https://github.com/modelcontextprotocol/conformance",
		version: packageVersion("mcp"),
		ways: []way{
			{name: "directly", run: func(t *testing.T, _ bool) outcome { return runMCP(t, startMCP(t)) }},
			{name: "the proxy", run: func(t *testing.T, _ bool) outcome {
				return runMCP(t, "http://"+startProxy(t, "upstream: {url: '"+startMCP(t)+"', preserve_host: true}\nstore: 'memory:'\n"))
			}},
			{name: "the proxy, with the profile jsonrpc", run: func(t *testing.T, _ bool) outcome {
				return runMCP(t, "http://"+startProxy(t, "upstream: {url: '"+startMCP(t)+"', preserve_host: true}\n"+guarded))
			}},
		},
		compared: true,
	}
}

func startMCP(t *testing.T) (url string) {
	t.Helper()
	port := servers.ReservePort(t)
	start(t, port, "mcp", program(t, "everything-server"), fmt.Sprintf("-http=127.0.0.1:%d", port), "-stateless=false")
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// runMCP runs all scenarios for servers. A case is a check of a scenario.
func runMCP(t *testing.T, url string) (o outcome) {
	t.Helper()
	dir := t.TempDir()
	index := filepath.Join(servers.NodeModules(t, "mcp"), "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), servers.Node(t), index, "server", "--url", url, "--output-dir", filepath.Join(dir, "results"))
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // its exit code is that of any failure
	files, err := filepath.Glob(filepath.Join(dir, "results", "*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v\n%s", err, out)
	}
	for _, file := range files {
		var checks []struct{ ID, Status, ErrorMessage string }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &checks)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			said := ""
			if c.Status == "FAILURE" {
				said = "failed: " + c.ErrorMessage
			}
			o.add(c.ID, said)
		}
	}
	return o
}
