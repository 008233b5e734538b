package caddysafe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// gateway is a Caddy with the module.
type gateway struct {
	*testing.T
	*servers.Service
	admin string // its address
}

// startCaddy starts the command of this module. Its configuration has the options and the upstream.
func startCaddy(t *testing.T, options, upstream string) *gateway {
	t.Helper()
	program, err := servers.Build("github.com/retrysafe/retrysafe/caddysafe/cmd/caddy")
	if err != nil {
		t.Fatal(err)
	}
	c := &gateway{T: t, admin: freeAddress(t)}
	file := filepath.Join(t.TempDir(), "Caddyfile")
	c.Service = servers.StartService(t, "caddy", func(port string) []string {
		if err := os.WriteFile(file, []byte(c.caddyfile(port, options, upstream)), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"HOME=" + filepath.Dir(file), program, "run", "--config", file, "--adapter", "caddyfile"}
	})
	return c
}

func (c *gateway) caddyfile(port, options, upstream string) string {
	return fmt.Sprintf("{\n\tadmin %s\n}\n:%s {\n\tretrysafe {\n%s\n\t}\n\treverse_proxy %s\n}\n", c.admin, port, options,
		strings.TrimPrefix(upstream, "http://"))
}

// reload has Caddy load another configuration.
func (c *gateway) reload(options, upstream string) {
	c.Helper()
	port := c.URL()[strings.LastIndex(c.URL(), ":")+1:]
	request, err := http.NewRequest(http.MethodPost, "http://"+c.admin+"/load", strings.NewReader(c.caddyfile(port, options, upstream)))
	if err != nil {
		c.Fatal(err)
	}
	request.Close = true // a reload closes this connection, too
	request.Header.Set("Content-Type", "text/caddyfile")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		c.Fatalf("Caddy refuses the configuration: %s", body)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", servers.ReservePort(t))
}

// charge sends a request, with the key unless it is empty, and compares the answer with "STATUS BODY". Of an error's
// body only the code is compared.
func (c *gateway) charge(key, body, want string) {
	c.Helper()
	request, err := http.NewRequest(http.MethodPost, c.URL()+"/charges", strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	request.Close = true // a reload closes connections that are idle, perhaps while one is chosen for a request
	request.Header.Set("Authorization", "Bearer buyer")
	if key != "" {
		request.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	response, err := http.DefaultClient.Do(request)
	cut := func(err error) bool {
		return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	}
	for end := time.Now().Add(time.Minute); cut(err) && time.Now().Before(end); {
		// Caddy stops the server before a reload beside that: a connection that has just come to it ends without a look at the
		// request.
		request.Body, _ = request.GetBody() // of a string
		response, err = http.DefaultClient.Do(request)
	}
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	var problem struct{ Code string }
	if json.Unmarshal(text, &problem) == nil && problem.Code != "" {
		text = []byte(problem.Code)
	}
	if got := fmt.Sprintf("%d %s", response.StatusCode, bytes.TrimSpace(text)); got != want {
		c.Errorf("key %q, body %q: got %q, want %q", key, body, got, want)
	}
}

// shop counts charges.
type shop struct{ charges atomic.Int64 }

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // StartService asks whether Caddy answers
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "charge ", s.charges.Add(1))
}

// serve starts an upstream for the test.
func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
