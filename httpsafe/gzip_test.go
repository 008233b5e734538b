package httpsafe_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestReplayInAnotherCoding: a client gets no coding that it does not take, unless nothing can be done about it.
// Seen to fail with the stored bytes sent to all clients: curl got gzip that had been made for a browser.
func TestReplayInAnotherCoding(t *testing.T) {
	const plain = `{"paid":17}`
	for _, c := range []struct {
		name, accepts, coding, vary, body string
		decoded                           bool
	}{
		{"takes it", "gzip, br", "gzip", "Accept-Encoding", gzipped(plain), false},
		{"takes anything", "br, *;q=0.1", "gzip", "", gzipped(plain), false},
		{"takes identity only", "identity", "gzip", "", gzipped(plain), true},
		{"takes others only", "br, zstd", "x-gzip", "", gzipped(plain), true},
		{"refuses it", "gzip;q=0, *", "gzip", "", gzipped(plain), true},
		{"says nothing of a negotiated answer", "-", "gzip", "Origin, accept-encoding", gzipped(plain), true},
		{"says nothing", "-", "gzip", "", gzipped(plain), false},
		{"another coding", "identity", "br", "", gzipped(plain), false},
		{"two codings", "identity", "br, gzip", "", gzipped(plain), false},
		{"broken", "identity", "gzip", "", gzipped(plain)[:20], false},
		{"a bomb", "identity", "gzip", "", gzipped(strings.Repeat("\x00", 17<<20)), false},
		{"no coding", "br", "", "", plain, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t)
			k.handler = func(w http.ResponseWriter, r *http.Request) {
				for name, value := range map[string]string{
					"Content-Encoding": c.coding, "Vary": c.vary,
					"ETag": `"1"`, "Content-Digest": "sha-256=:x:",
				} {
					if value != "" {
						w.Header().Set(name, value)
					}
				}
				io.WriteString(w, c.body)
			}
			first := k.post("k", header("Accept-Encoding", "gzip, br")).want(200)
			change := header("Accept-Encoding", c.accepts)
			if c.accepts == "-" {
				change = func(*http.Request) {}
			}
			replay := k.post("k", change)
			if !c.decoded {
				replay.wantReplayOf(first)
				return
			}
			replay.want(200).wantBody(plain).wantState("replayed; exp=@EXP").wantHeader("Content-Length", "11")
			replay.wantHeader("Content-Encoding", "").wantHeader("Content-Digest", "").wantHeader("ETag", `W/"1"`)
		})
	}
}

// Seen to fail with a line for each name, where the handler had written one.
func TestTrailersAreAnnouncedInOneLine(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Checksum, Signed")
		io.WriteString(w, "body")
		w.Header().Set("Checksum", "c1")
		w.Header().Set("Signed", "yes")
	}
	k.post("k").wantHeader("Trailer", "Checksum, Signed")
	k.post("k", header("Te", "trailers")).wantHeader("Trailer", "Checksum, Signed")
}
