package cases_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// Without a count there is only what answers show: enough to see these faults, and nothing where there is none.
func TestKeysByIdentityAlone(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		faults []target.Fault
		failed []string
	}{
		{nil, nil},
		{with(target.CutKeys), []string{"K09"}},
		{with(target.QuotedIsOther), []string{"K03"}},
		{with(target.NoComparison), []string{"M01", "M03", "M04", "M05"}},
		{with(target.RunsOther), []string{"M01", "M02", "M07", "M08", "M13"}},
	} {
		api, server := target.Start(t, s.faults...)
		recipe := recipeFor(t, server.URL, api)
		recipe.Count = nil
		report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"K", "M"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range s.failed {
			if o, _ := report.Find(id); o.Verdict != probe.Fail {
				t.Errorf("%s, %v: %s, want FAIL: %v", id, s.faults, o.Verdict, o.Findings)
			}
		}
		if n := report.Count(probe.Fail) + report.Count(probe.Broken); s.faults == nil && n > 0 {
			t.Errorf("no fault, and %d cases failed", n)
		}
	}
}

// The bytes that the cases are about are the ones that are written.
func TestOddKeysGoOverTheWire(t *testing.T) {
	t.Parallel()
	for id, want := range map[string][]string{
		"K10": {"k\u00e9", "ke\u0301", "k\xe9"},
		"K11": {"\x00x", "\x01x", "\tx", "\x7fx", "%0d%0ax"},
		"K12": {"\r\nIdempotency-Key: \"", "\"\r\nIdempotency-Key: \""},
	} {
		written := listenTo(t, id)
		for _, bytes := range want {
			if !strings.Contains(written, bytes) {
				t.Errorf("%s never wrote %q", id, bytes)
			}
		}
	}
}

// listenTo plays a case against a server that refuses everything, and returns the heads that it has read.
func listenTo(t *testing.T, id string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan string, 1)
	go func() {
		var all strings.Builder
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			all.WriteString(refuseRaw(c))
		}
		written <- all.String()
	}()
	recipe := recipeFor(t, "http://"+l.Addr().String(), nil)
	recipe.Count = nil
	if _, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{id}}); err != nil {
		t.Error(err)
	}
	_ = l.Close()
	return <-written
}

// refuseRaw reads what a request has up to its body.
func refuseRaw(c net.Conn) string {
	defer func() { _ = c.Close() }()
	var head strings.Builder
	for in := bufio.NewReader(c); !strings.HasSuffix(head.String(), "\r\n\r\n"); {
		b, err := in.ReadByte()
		if err != nil {
			break
		}
		head.WriteByte(b)
	}
	_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	return head.String()
}
