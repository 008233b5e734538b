package servers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// A service keeps its port when it is killed and started again, and its processes are new ones.
func TestServiceIsKilledAndStartsAgain(t *testing.T) {
	t.Parallel()
	const program = `import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()`
	python := servers.Python(t)
	s := servers.StartService(t, "python", func(port string) []string { return []string{python, "-c", program, port} })
	url := s.URL()
	first := get(t, url)
	s.Kill(t)
	if r, err := http.Get(url); err == nil {
		r.Body.Close()
		t.Error("a killed service answers")
	}
	s.Start(t)
	if second := get(t, url); second == first || second == "" {
		t.Errorf("the process %q answers after it was killed, the first was %q", second, first)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}
