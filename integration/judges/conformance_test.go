package judges

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	pb "github.com/retrysafe/retrysafe/integration/judges/conformancepb"
)

func connectServer() suite {
	return suite{
		id: "connect", name: "Connect's conformance suite, of a server with connectsafe", license: "Apache-2.0",
		source:  "https://github.com/connectrpc/conformance",
		version: moduleVersion("tools.mod", "connectrpc.com/conformance"),
		ways: []way{
			connectWay("connect-go alone", connectRole+" plain"),
			connectWay("connectsafe, each call with a key", connectRole+" guarded"),
			connectWay("connectsafe, each unary answer a replay", connectRole+" replayed"),
		},
		compared: true,
		reasons: []reason{{
			"connectsafe.*", "Deadline Propagation/.*/unary/success",
			"A handler that runs under a key does not end with its client's deadline, but with `Policy.Timeout`: its answer is " +
				"saved for the retry. See [gRPC and Connect](grpc.md#what-is-kept).",
		}},
	}
}

func connectProxy() suite {
	return suite{
		id: "connect-proxy", name: "Connect's conformance suite, of its reference server behind the proxy",
		license: "Apache-2.0",
		source:  "https://github.com/connectrpc/conformance",
		version: moduleVersion("tools.mod", "connectrpc.com/conformance"),
		ways: []way{
			connectWay("directly", ""),
			{name: "the proxy", run: func(t *testing.T, _ bool) outcome {
				return runConformance(t, behindRole+" "+program(t, "referenceserver")+" "+command(t))
			}},
		},
		compared: true,
	}
}

func connectWay(name, role string) way {
	return way{name: name, run: func(t *testing.T, _ bool) outcome { return runConformance(t, role) }}
}

// conformanceConfig is what servers can do that are judged: everything but HTTP/3, certificates of clients, and the
// compressions that connect-go does not have.
const conformanceConfig = `features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  protocols: [PROTOCOL_CONNECT, PROTOCOL_GRPC, PROTOCOL_GRPC_WEB]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP]
`

var (
	conformanceTotal  = regexp.MustCompile(`(?m)^Total cases: (\d+)$`)
	conformanceFailed = regexp.MustCompile(`(?m)^FAILED: (.+):\n((?:\t.*\n)*)`)
)

// runConformance has the suite judge servers that this program plays, or its own server.
func runConformance(t *testing.T, role string) (o outcome) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(conformanceConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	server := testProgram(t)
	if role == "" {
		server = program(t, "referenceserver")
	}
	cmd := exec.CommandContext(t.Context(), program(t, "connectconformance"), "--conf", config, "--mode", "server",
		"-p", "4", "--", server)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	out, _ := cmd.CombinedOutput() // its exit code is that of any failure
	total := conformanceTotal.FindSubmatch(out)
	if total == nil {
		t.Fatalf("connectconformance says:\n%s", out)
	}
	for _, f := range conformanceFailed.FindAllSubmatch(out, -1) {
		o.add(string(f[1]), strings.TrimSpace(string(f[2])))
	}
	o.cases, _ = strconv.Atoi(string(total[1]))
	return o
}

// playBehindProxy is the suite's own server behind the proxy. The suite says what the server must be like: so it is
// the proxy that speaks TLS, and what is between them is the version of HTTP that the client speaks.
func playBehindProxy(server, proxy string) error {
	var asked pb.ServerCompatRequest
	if err := readMessage(os.Stdin, &asked); err != nil {
		return err
	}
	withTLS := asked.UseTls
	asked.UseTls = false
	cmd := exec.Command(server)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Process.Kill()
	if err := writeMessage(in, &asked); err != nil {
		return err
	}
	var upstream pb.ServerCompatResponse
	if err := readMessage(out, &upstream); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "retrysafe-judges-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scheme, settings := "http", "store: 'memory:'\n"
	if asked.HttpVersion == pb.HTTPVersion_HTTP_VERSION_2 {
		scheme, settings = "h2c", settings+"h2c: true\n"
	}
	if withTLS {
		for name, content := range map[string][]byte{"cert": asked.ServerCreds.Cert, "key": asked.ServerCreds.Key} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				return err
			}
		}
		settings += fmt.Sprintf("tls: {cert: %[1]s/cert, key: %[1]s/key}\n", dir)
	}
	settings += fmt.Sprintf("upstream: %s://%s:%d\n", scheme, upstream.Host, upstream.Port)
	address, stop, err := runProxy(proxy, dir, settings)
	if err != nil {
		return err
	}
	defer stop()
	host, port, _ := strings.Cut(address, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	answer := &pb.ServerCompatResponse{Host: host, Port: uint32(number)}
	if withTLS {
		answer.PemCert = asked.ServerCreds.Cert
	}
	if err := writeMessage(os.Stdout, answer); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	return nil
}
