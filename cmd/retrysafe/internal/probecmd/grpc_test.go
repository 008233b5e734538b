//go:build unix

package probecmd

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// All reports of a service that keeps its promises.
func TestProbeAServiceOverGRPC(t *testing.T) {
	t.Parallel()
	s, dir := newGRPCShop(t, grpcServed{}), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	got := probeWith(t, "--recipe", grpcRecipe(t, "grpc://"+s.address,
		"count: {get: {url: '"+s.counts+"', pointer: /made}}\n"), "--json",
		"--html", at("r.html"), "--junit", at("r.xml"), "--sarif", at("r.sarif"), "--badge", at("r.svg"),
		"--observed", at("o.json"))
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "what it says", got.Stderr, "8 cases against grpc://"+s.address, "by the rules of ietf",
		"create resources: grpc.testing.TestService/UnaryCall, at most 5000 requests", "GET "+s.counts,
		"G gRPC: 2 INFO, 6 PASS")
	var r probe.Report
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, got.Stdout)
	}
	clitest.Want(t, "failed, broken, warned", r.Count(probe.Fail)+r.Count(probe.Broken)+r.Count(probe.Warn), 0)
	clitest.Want(t, "evidence", r.Evidence, probe.ByCount)
	var table, markdown bytes.Buffer
	if err := report.Table(&table, &r, report.TableOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := report.Markdown(&markdown, &r); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"table": table.String(), "markdown": markdown.String()}
	for _, name := range []string{"r.html", "r.xml", "r.sarif", "r.svg", "o.json"} {
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for name, part := range map[string]string{
		"table": "G01 PASS", "markdown": "| G01 | ", "r.html": "Safe to retry", "r.xml": `classname="probe.gRPC"`,
		"r.sarif": `"G01"`,
		"r.svg":   "retry-safe: yes", "o.json": `"protocol": "grpc"`,
	} {
		clitest.WantText(t, name, texts[name], part)
		if strings.Contains(texts[name], "s3cret") {
			t.Errorf("%s shows the credential", name)
		}
	}
}

// Seen to fail with the exit code of a FAIL made 0.
func TestProbeAServiceThatForgetsItsKeys(t *testing.T) {
	t.Parallel()
	s := newGRPCShop(t, grpcServed{forgets: true})
	html := filepath.Join(t.TempDir(), "r.html")
	got := probeWith(t, "--recipe", grpcRecipe(t, "grpc://"+s.address, ""), "--html", html)
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "table", got.Stdout, "G01 FAIL", "it ran again", "TestService/UnaryCall",
		"Save the response together with the key")
	clitest.WantText(t, "what it says", got.Stderr, "failed")
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	clitest.WantText(t, "page", string(page), "Not safe to retry", "credential A")
	if strings.Contains(got.Stdout+got.Stderr+string(page), "s3cret") {
		t.Errorf("the credential is shown:\n%s", got.Stdout)
	}
}

// Seen to fail with TLS left out.
func TestProbeOverTLS(t *testing.T) {
	t.Parallel()
	https := httptest.NewUnstartedServer(nil)
	https.StartTLS()
	https.Close()
	s := newGRPCShop(t, grpcServed{tls: &tls.Config{Certificates: https.TLS.Certificates}})
	roots := filepath.Join(t.TempDir(), "roots.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})
	if err := os.WriteFile(roots, block, 0o600); err != nil {
		t.Fatal(err)
	}
	recipe := grpcRecipe(t, "grpcs://"+s.address, "")
	got := clitest.RunWith(t, []string{"PROBE_A=s3cret", "SSL_CERT_FILE=" + roots}, "probe", "--only=G01", "--recipe",
		recipe)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	stranger := probeWith(t, "--only=G01", "--recipe", recipe)
	clitest.Want(t, "exit code without the root", stranger.Code, cli.ExitFailed)
	clitest.WantText(t, "error", stranger.Stderr, "certificate")
	clitest.Want(t, "things made", s.made.Load(), 2) // one in the rehearsal
}

// What only the server can tell is found before anything is made. Seen to fail with the mark of such errors taken
// out.
func TestProbeRefusesARecipeForGRPC(t *testing.T) {
	t.Parallel()
	s := newGRPCShop(t, grpcServed{})
	here := grpcRecipe(t, "grpc://"+s.address, "")
	overHTTP := recipeFor(t, "http://127.0.0.1:1", "")
	changed := func(old, by string) string {
		text, err := os.ReadFile(here)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "grpc.yaml")
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), old, by, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{
			"not on this machine",
			[]string{"--recipe", grpcRecipe(t, "grpc://192.0.2.1:443", "")},
			[]string{"grpc://192.0.2.1:443 is not on this machine", "i_own_this: true", "--allow-remote"},
		},
		{"without a terminal", []string{
			"--recipe", grpcRecipe(t, "grpc://192.0.2.1:443", "i_own_this: true\n"),
			"--allow-remote",
		}, []string{"TestService/UnaryCall", "--yes"}},
		{
			"a mistake",
			[]string{"--recipe", changed("request:", "reqest:")},
			[]string{"grpc.yaml:4:3", `did you mean "request"?`},
		},
		{
			"a field of HTTP's",
			[]string{"--recipe", changed("identity:", "key_header: X-Key\nidentity:")},
			[]string{"grpc.yaml:5:13", "key_metadata"},
		},
		{
			"a profile of HTTP's",
			[]string{"--profile=stripe", "--recipe", here},
			[]string{"--profile stripe", "for gRPC", "aip155, ietf, none"},
		},
		{"a profile of gRPC's", []string{"--profile=aip155", "--recipe", overHTTP}, []string{"for HTTP", "ietf-strict"}},
		{
			"a target of HTTP's",
			[]string{"http://127.0.0.1:1", "--recipe", here},
			[]string{"grpc.yaml is for gRPC", "grpc://127.0.0.1:50051"},
		},
		{
			"a target of gRPC's",
			[]string{"grpc://127.0.0.1:1", "--recipe", overHTTP},
			[]string{"payments.yaml is for HTTP", "http://127.0.0.1:8080"},
		},
		{
			"a case of HTTP's",
			[]string{"--only=G01,m01", "--recipe", here},
			[]string{"--only M01", "grpc.yaml is for gRPC", "G01 to G08"},
		},
		{
			"a group of gRPC's",
			[]string{"--only=g", "--recipe", overHTTP},
			[]string{"--only G", "payments.yaml is for HTTP", "B01 to T07"},
		},
		{"no case left", []string{"--safe", "--only=G08", "--recipe", here}, []string{"no case to play"}},
		{
			"no such method",
			[]string{"--recipe", changed("TestService/UnaryCall", "TestService/Make")},
			[]string{"grpc.yaml: ", "has no method Make; it has"},
		},
		{
			"no such service",
			[]string{"--recipe", changed("TestService/UnaryCall", "Shop/Make")},
			[]string{"grpc.yaml: ", "grpc.testing.Shop"},
		},
		{
			"no such field",
			[]string{"--recipe", changed("responseSize", "size")},
			[]string{"grpc.yaml: ", "is not a valid grpc.testing.SimpleRequest", `"size"`},
		},
		{
			"a key in no field",
			[]string{"--recipe", changed("identity:", "  key_field: request_id\nidentity:")},
			[]string{"has no field request_id"},
		},
	} {
		got := probeWith(t, c.args...)
		clitest.Want(t, c.name+": exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, c.name, got.Stderr, c.says...)
		clitest.Want(t, c.name+": output", got.Stdout, "")
	}
	clitest.Want(t, "things made", s.made.Load(), 0)
}

// A service that cannot be asked, or that refuses the first call, is not tried further.
func TestProbeStopsIfTheFirstCallDoesNotWork(t *testing.T) {
	t.Parallel()
	hidden := newGRPCShop(t, grpcServed{hidden: true})
	got := probeWith(t, "--recipe", grpcRecipe(t, "grpc://"+hidden.address, ""))
	clitest.Want(t, "exit code without reflection", got.Code, cli.ExitFailed)
	clitest.WantText(t, "error", got.Stderr, "does not offer reflection")
	s := newGRPCShop(t, grpcServed{})
	recipe := grpcRecipe(t, "grpc://"+s.address, "")
	text, err := os.ReadFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recipe, bytes.Replace(text, []byte("/serverId"), []byte("/server_id"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	got = probeWith(t, "--recipe", recipe)
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "error", got.Stderr, "nothing else was tried")
	clitest.WantText(t, "table", got.Stdout, "G01 BROKEN", "nothing at /server_id")
	clitest.Want(t, "broken cases", strings.Count(got.Stdout, "BROKEN G"), 1)
}

// The badge asks for as many cases as are safe; --safe plays them. Seen to fail with one of either taken out.
func TestSafeCasesOverGRPC(t *testing.T) {
	t.Parallel()
	safe := 0
	for _, c := range grpcprobe.Cases() {
		if c.Safe {
			safe++
		}
	}
	clitest.Want(t, "cases of the badge",
		report.Safe(&probe.Report{Observed: probe.Observed{Protocol: "grpc"}}).Asked, safe)
	s := newGRPCShop(t, grpcServed{})
	badge := filepath.Join(t.TempDir(), "r.svg")
	got := probeWith(t, "--safe", "--skip=G04,M01", "--recipe",
		grpcRecipe(t, "grpc://"+s.address, "limits: {burst: 5}\n"), "--badge", badge)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	text, err := os.ReadFile(badge)
	if err != nil {
		t.Fatal(err)
	}
	clitest.WantText(t, "badge of a run without one of them", string(text), "retry-safe: not shown")
}

// The cap is of the whole run. Seen to fail with the calls of the rehearsal not taken off it.
func TestProbeMakesNoMoreCallsThanItMay(t *testing.T) {
	t.Parallel()
	s := newGRPCShop(t, grpcServed{forgets: true})
	got := probeWith(t, "--recipe", grpcRecipe(t, "grpc://"+s.address, "limits: {requests: 5}\n"))
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	if made := s.made.Load(); made > 5 {
		t.Errorf("%d calls, want at most 5", made)
	}
}

func TestProbeListsAndExplainsGRPC(t *testing.T) {
	t.Parallel()
	all := probeWith(t, "--list")
	clitest.WantText(t, "list", all.Stdout, "B01", "G01", "G08")
	group := probeWith(t, "--list", "--only=g")
	if strings.Contains(group.Stdout, "B01") || !strings.Contains(group.Stdout, "8 cases") {
		t.Errorf("the list of a group:\n%s", group.Stdout)
	}
	one := probeWith(t, "--explain=g02")
	clitest.Want(t, "exit code", one.Code, cli.ExitOK)
	clitest.WantText(t, "explanation", one.Stdout, "another request", "FAILED_PRECONDITION", "--only G02", "safe")
}
