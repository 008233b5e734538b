package judges

import (
	"encoding/xml"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
)

func h2spec() suite {
	return suite{
		id: "h2spec", name: "h2spec, of HTTP/2 and HPACK", license: "MIT",
		source:  "https://github.com/summerwind/h2spec",
		version: moduleVersion("tools.mod", "github.com/summerwind/h2spec"),
		ways: []way{
			{name: "net/http alone", run: func(t *testing.T, _ bool) outcome {
				return runH2spec(t, serveH2(t, http.HandlerFunc(hello)))
			}},
			{name: "the middleware", run: func(t *testing.T, _ bool) outcome {
				guarded := httpsafe.Middleware(newGuard(), httpsafe.ScopeNone(), httpsafe.Options{})
				return runH2spec(t, serveH2(t, guarded(http.HandlerFunc(hello))))
			}},
			{name: "the proxy", run: func(t *testing.T, _ bool) outcome {
				upstream := serveH2(t, http.HandlerFunc(hello))
				return runH2spec(t, startProxy(t, "upstream: h2c://"+upstream+"\nstore: 'memory:'\nh2c: true\n"))
			}},
		},
		compared: true,
	}
}

// hello reads the request to its end, as the proxy does.
func hello(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Write([]byte("hello"))
}

// serveH2 serves HTTP/2 without TLS.
func serveH2(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// runH2spec runs the suite against a server, with the cases that only strict readers of the RFC ask for.
func runH2spec(t *testing.T, address string) (o outcome) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.xml")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program(t, "h2spec"), "--host", host, "--port", port, "--junit-report", report,
		"--timeout", "2", "--strict")
	out, _ := cmd.CombinedOutput() // its exit code is that of any failure
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Package string  `xml:"package,attr"`
				Class   string  `xml:"classname,attr"`
				Failure *string `xml:"failure"`
				Error   *string `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			said := ""
			for _, f := range []*string{c.Failure, c.Error} {
				if f != nil {
					said = "failed: " + strings.TrimSpace(*f)
				}
			}
			o.add(c.Package+": "+c.Class, said)
		}
	}
	return o
}
