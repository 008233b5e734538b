package grpcprobe_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
)

func TestEitherVersionOfReflectionWillDo(t *testing.T) {
	for name, how := range map[string]served{"v1": {noAlpha: true}, "v1alpha": {noV1: true}} {
		t.Run(name, func(t *testing.T) {
			s, address := open(t, how)
			wantVerdict(t, run(t, recipeFor(s, address), "G01"), "G01", probe.Pass)
		})
	}
}

func TestTLS(t *testing.T) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	s, address := open(t, served{tls: &tls.Config{Certificates: https.TLS.Certificates}})
	r := recipeFor(s, address)
	r.TLS = https.Client().Transport.(*http.Transport).TLSClientConfig
	wantVerdict(t, run(t, r, "G01"), "G01", probe.Pass)
}

// Seen to fail with the mark of the recipe's errors taken out.
func TestWhatIsWrongWithARecipeIsSaidBeforeAnythingIsCreated(t *testing.T) {
	for _, c := range []struct {
		name   string
		served served
		wrong  func(r *grpcprobe.Recipe)
		says   string
	}{
		{"no reflection", served{noV1: true, noAlpha: true}, func(*grpcprobe.Recipe) {}, "does not offer reflection"},
		{"no target", served{}, func(r *grpcprobe.Recipe) { r.Target = "" }, "target is missing"},
		{
			"no server",
			served{},
			func(r *grpcprobe.Recipe) { r.Target = "127.0.0.1:1" },
			"target 127.0.0.1:1: nothing answers at this address",
		},
		{"a URL", served{}, func(r *grpcprobe.Recipe) { r.Target = "http://x" }, "write host:port"},
		{"no port", served{}, func(r *grpcprobe.Recipe) { r.Target = "127.0.0.1" }, "write host:port"},
		{"no method", served{}, func(r *grpcprobe.Recipe) { r.Call.Method = "" }, "method is missing"},
		{"half a method", served{}, func(r *grpcprobe.Recipe) { r.Call.Method = "Create" }, `"Create" is not the full name`},
		{"no identity", served{}, func(r *grpcprobe.Recipe) { r.Identity = "" }, "identity is missing"},
		{"no pointer", served{}, func(r *grpcprobe.Recipe) { r.Identity = "thingId" }, "begins with a slash"},
		{"two keys", served{}, func(r *grpcprobe.Recipe) { r.Key = grpcprobe.Key{Metadata: "a", Field: "b"} }, "not in both"},
		{"a binary key", served{}, func(r *grpcprobe.Recipe) { r.Key.Metadata = "key-bin" }, "would carry bytes"},
		{"no profile", served{}, func(r *grpcprobe.Recipe) { r.Profile = "stripe" }, "supported: aip155, ietf, none"},
		{"no service", served{}, func(r *grpcprobe.Recipe) { r.Call.Method = "shop.v1.Nothing/Create" }, "shop.v1.Nothing"},
		{"a message", served{}, func(r *grpcprobe.Recipe) { r.Call.Method = "shop.v1.Thing/Create" }, "is not a service"},
		{
			"no such method",
			served{},
			func(r *grpcprobe.Recipe) { r.Call.Method = "shop.v1.Things/Make" },
			"it has Break, Create, ",
		},
		{"a stream", served{}, func(r *grpcprobe.Recipe) { r.Slow.Method = "shop.v1.Things/Watch" }, "is a stream"},
		{
			"another message",
			served{},
			func(r *grpcprobe.Recipe) { r.Call.Request = `{"sum": 1}` },
			"not a valid shop.v1.CreateRequest",
		},
		{
			"no generator",
			served{},
			func(r *grpcprobe.Recipe) { r.Call.Request = `{"amount": {{sum}}}` },
			"unknown generator {{sum}}",
		},
		{
			"no generator in a variant",
			served{},
			func(r *grpcprobe.Recipe) { r.Slow = &grpcprobe.Call{Request: `{{word}}`} }, "unknown generator {{word}}",
		},
		{"no field", served{}, func(r *grpcprobe.Recipe) { r.Key.Field = "key" }, "has no field key"},
		{"a number", served{}, func(r *grpcprobe.Recipe) { r.Key.Field = "amount" }, "is not a string"},
		{"a field that is set", served{}, func(r *grpcprobe.Recipe) { r.Key.Field = "note" }, "leave it out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, address := open(t, c.served)
			r := recipeFor(s, address)
			c.wrong(&r)
			_, err := grpcprobe.Run(t.Context(), r, probe.Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			ofServer := c.name == "no reflection" || c.name == "no server"
			if errors.Is(err, grpcprobe.ErrRecipe) == ofServer {
				t.Errorf("error %v: is it the recipe's? %t", err, !ofServer)
			}
			if s.effects.Load() != 0 {
				t.Error("something was created")
			}
		})
	}
}

func TestTheTimelineShowsCodesAndNoCredentials(t *testing.T) {
	s, address := open(t, served{})
	o, _ := run(t, recipeFor(s, address), "G02").Find("G02")
	if len(o.Timeline) != 2 {
		t.Fatalf("%d exchanges, want 2", len(o.Timeline))
	}
	first, second := o.Timeline[0], o.Timeline[1]
	if first.Code != "OK" || first.Status != 200 || second.Code != "FAILED_PRECONDITION" || second.Status != 400 {
		t.Errorf("codes %s (%d) and %s (%d)", first.Code, first.Status, second.Code, second.Status)
	}
	if !strings.HasPrefix(first.Request, "shop.v1.Things/Create\n") ||
		!strings.Contains(first.Request, "idempotency-key: ") {
		t.Errorf("the request is shown as %q", first.Request)
	}
	if strings.Contains(first.Request+second.Request, "secret") || !strings.Contains(first.Request, "(credential A)") {
		t.Errorf("the credential is shown: %q", first.Request)
	}
	if !strings.HasPrefix(second.Answer, "FAILED_PRECONDITION\n") || !strings.Contains(second.Answer, "another request") {
		t.Errorf("the answer is shown as %q", second.Answer)
	}
}

func TestObserved(t *testing.T) {
	s, address := open(t, served{})
	report := runUntil(t, func(r *probe.Report) bool { return r.Observed.InFlight != 0 }, recipeFor(s, address))
	o := report.Observed
	if o.Protocol != "grpc" || o.Header != "idempotency-key" || o.Mismatch != 9 || o.InFlight != 10 ||
		o.Malformed != 3 || o.Marker != "idempotent-replayed" {
		t.Errorf("observed %+v", o)
	}
	if o.ServerErrors != "stored" || o.ClientErrors != "stored" || o.RetryAfter == nil || !*o.RetryAfter {
		t.Errorf("observed %+v", o)
	}
	if !strings.HasPrefix(report.Target, "grpc://") {
		t.Errorf("target %s", report.Target)
	}
}

// Seen to fail, with two calls, when exchange does without attempt: grpc-go makes a call again that a server refused.
func TestNothingIsMadeTwice(t *testing.T) {
	s, address := open(t, served{})
	proxy := refuse(t, address)
	o, _ := run(t, recipeFor(s, proxy.address), "G01").Find("G01")
	if o.Verdict != probe.Broken || !strings.Contains(o.Findings[0].Text, "does not retry it") {
		t.Errorf("%s: %v", o.Verdict, o.Findings)
	}
	if n := proxy.calls.Load(); n != 1 {
		t.Errorf("%d calls were made, want 1", n)
	}
}

// refuser lets the first connection, which asks for descriptors, through to a server, and refuses all streams of the
// others.
type refuser struct {
	address string
	calls   atomic.Int64
}

func refuse(t *testing.T, server string) *refuser {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &refuser{address: l.Addr().String()}
	go func() {
		if first, err := l.Accept(); err == nil {
			go forward(first, server)
		}
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func forward(conn net.Conn, server string) {
	defer conn.Close()
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, conn) }()
	_, _ = io.Copy(conn, to)
}

// serve speaks HTTP/2 as far as it needs to.
func (r *refuser) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	if err := f.WriteSettings(); err != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			r.calls.Add(1)
			_ = f.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
		}
	}
}
