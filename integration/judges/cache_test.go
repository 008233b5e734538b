package judges

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The proxy stores answers to requests with keys, and is no HTTP cache. So its result is that of no cache at all: most
// tests fail, as they do directly. cache/package.json replaces one dependency of the suite, npm itself, which it does not
// use.
func cacheTests() suite {
	return suite{
		id: "cache", name: "HTTP caching tests", license: "BSD-3-Clause",
		source:  "https://github.com/http-tests/cache-tests",
		version: packageVersion("cache"),
		ways: []way{
			{name: "directly", run: func(t *testing.T, _ bool) outcome { return runCacheTests(t, startCacheServer(t)) }},
			{name: "the proxy", run: func(t *testing.T, _ bool) outcome {
				return runCacheTests(t, "http://"+startProxy(t, "upstream: "+startCacheServer(t)+"\nstore: 'memory:'\n"))
			}},
		},
		compared: true,
	}
}

func startCacheServer(t *testing.T) (url string) {
	t.Helper()
	port := servers.ReservePort(t)
	start(t, port, "cache", servers.Node(t), "--no-warnings", "cache/run.mjs", "server", strconv.Itoa(port))
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// runCacheTests runs the tests three times: some fail now and then on a busy machine, also without the proxy.
func runCacheTests(t *testing.T, url string) (o outcome) {
	t.Helper()
	passed := map[string]bool{} // in one of the runs
	results := map[string]any{} // of the last one: true, or the kind of failure and what failed
	for range 3 {
		cmd := exec.CommandContext(t.Context(), servers.Node(t), "--no-warnings", "cache/run.mjs", "client", url)
		cmd.Env = append(os.Environ(), "NODE_PATH="+servers.NodeModules(t, "cache"))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &results); err != nil {
			t.Fatal(err)
		}
		for name, result := range results {
			passed[name] = passed[name] || result == true
		}
	}
	for name, result := range results {
		said := ""
		if !passed[name] {
			said = fmt.Sprint(result)
		}
		o.add(name, said)
	}
	return o
}

// start starts a server for one test, with the packages of a folder, and waits until it listens.
func start(t *testing.T, port int, folder, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+servers.NodeModules(t, folder))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for range 600 {
		if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			conn.Close()
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Fatalf("%s does not listen", program)
}
