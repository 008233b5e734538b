package integration

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/proxy"
)

// playOne plays one case against a proxy in front of an upstream.
func playOne(t *testing.T, id string, api *orders, o proxy.Options, change func(r *probe.Recipe)) probe.Outcome {
	t.Helper()
	profile := httpsafe.IETF()
	p, err := proxy.New(newProbedGuard(t, profile), httpsafe.ScopeCredential(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.CloseIdleConnections)
	recipe := api.recipe(t, serve(t, p), profile)
	change(&recipe)
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	outcome, _ := report.Find(id)
	return outcome
}

// A stream that the upstream refuses has not been looked at: its key is free. Seen to fail (FAIL, still 502 after ten
// seconds) with notProcessed taken out of the proxy.
func TestProbeIsRefusedAStream(t *testing.T) {
	t.Parallel()
	api := new(orders)
	o := playOne(t, "F17", api, proxy.Options{Upstream: proxy.Upstream{URL: mustParse(t,
		"h2c://"+api.refuseOnce(t))}}, func(r *probe.Recipe) {
		r.Variants.Unreached = &r.Request
	})
	if o.Verdict != probe.Pass {
		t.Errorf("%s: %v\n%s", o.Verdict, o.Findings, timeline(o))
	}
}

// refuseOnce serves HTTP/2 in frames, because net/http refuses no stream. The first one is reset with REFUSED_STREAM.
func (s *orders) refuseOnce(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	const data, headers, reset, settings = 0, 1, 3, 4
	refused := false
	serve := func(c net.Conn, stream uint32) {
		if !refused {
			refused = true
			writeFrame(c, reset, 0, stream, []byte{0, 0, 0, 7})
			return
		}
		const status200, endHeaders, endStream = 0x88, 0x4, 0x1
		writeFrame(c, headers, endHeaders, stream, []byte{status200})
		writeFrame(c, data, endStream, stream, fmt.Appendf(nil, `{"id":"order-%d"}`, s.made.Add(1)))
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() { // one connection after the other
			_, _ = io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			writeFrame(c, settings, 0, 0, nil)
			var head [9]byte
			for {
				if _, err := io.ReadFull(c, head[:]); err != nil {
					break
				}
				_, _ = io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
				if head[3] == headers {
					serve(c, binary.BigEndian.Uint32(head[5:]))
				}
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func writeFrame(c net.Conn, kind, flags byte, stream uint32, payload []byte) {
	head := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
}

// A body that does not come is given up, also without a key. Seen to fail while requests without a key had no time
// limit.
func TestProbeKeepsABodyBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout, documented time.Duration
		want                probe.Verdict
	}{
		{300 * time.Millisecond, time.Minute, probe.Pass}, {time.Minute, 300 * time.Millisecond, probe.Fail},
	} {
		t.Run(c.timeout.String(), func(t *testing.T) {
			t.Parallel()
			api := new(orders)
			o := playOne(t, "C11", api, proxy.Options{
				Upstream: proxy.Upstream{URL: mustParse(t, serve(t, api))}, Default: proxy.Route{BodyTimeout: c.timeout},
			}, func(r *probe.Recipe) { r.BodyTimeout, r.Limits.Wait = c.documented, time.Minute })
			if o.Verdict != c.want {
				t.Errorf("%s, want %s: %v\n%s", o.Verdict, c.want, o.Findings, timeline(o))
			}
		})
	}
}
