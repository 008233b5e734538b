package httpsafe_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// bench is a handler, bare and guarded, with a request and a response that cost nothing themselves.
type bench struct {
	bare, guarded http.Handler
	request       *http.Request
	body          *strings.Reader
	w             sink
	key           []string
	n             int
}

// sink is a ResponseWriter whose header map is used again, as net/http's connection uses its buffers.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

var jsonType = []string{"application/json"}

func newBench() *bench {
	b := &bench{w: sink{http.Header{}}, body: strings.NewReader(`{"amount":1700,"currency":"EUR","customer":"c_81"}`)}
	answer := []byte(`{"id":"pay_1","amount":1700,"currency":"EUR","status":"paid"}`)
	b.bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in [256]byte
		for {
			if _, err := r.Body.Read(in[:]); err != nil {
				break
			}
		}
		w.Header()["Content-Type"] = jsonType
		w.WriteHeader(http.StatusCreated)
		w.Write(answer)
	})
	guard := retrysafe.New(memstore.New(memstore.Options{MaxKeys: 1 << 30, MaxBytes: 1 << 40}), retrysafe.Options{})
	b.guarded = httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{})(b.bare)
	b.request, _ = http.NewRequest(http.MethodPost, "/payments", nil)
	b.request.Header["Authorization"] = []string{"Bearer 0123456789abcdef0123456789abcdef"}
	b.request.Header["Content-Type"] = jsonType
	b.request.Body, b.request.ContentLength = io.NopCloser(b.body), b.body.Size()
	b.key = []string{""}
	return b
}

func (b *bench) serve(h http.Handler) {
	clear(b.w.header)
	b.body.Seek(0, io.SeekStart)
	h.ServeHTTP(&b.w, b.request)
}

func (b *bench) keyed(key string) {
	b.key[0] = key
	b.request.Header["Idempotency-Key"] = b.key
}

func (b *bench) freshKey() string {
	b.n++
	return "8e03978e-40d5-43dd-bc93-" + strconv.Itoa(100_000_000_000+b.n)
}

// TestAllocations holds the middleware on memstore to what it may allocate on top of the handler, the key of the
// benchmark not counted. Seen to fail with the pools taken out.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates")
		return
	}
	b := newBench()
	bare := testing.AllocsPerRun(200, func() { b.serve(b.bare) })
	without := testing.AllocsPerRun(200, func() { b.serve(b.guarded) })
	key := testing.AllocsPerRun(200, func() { b.keyed(b.freshKey()) })
	delete(b.request.Header, "Idempotency-Key")
	fresh := testing.AllocsPerRun(200, func() { b.keyed(b.freshKey()); b.serve(b.guarded) }) - key
	replay := testing.AllocsPerRun(200, func() { b.serve(b.guarded) })
	for _, c := range []struct {
		name      string
		got, most float64
	}{
		{"without a key", without - bare, 0}, {"fresh", fresh - bare, 12}, {"replay", replay - bare, 6},
	} {
		t.Logf("%s: %v allocations more than the bare handler", c.name, c.got)
		if c.got > c.most {
			t.Errorf("%s: %v allocations more than the bare handler, want at most %v", c.name, c.got, c.most)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	k := newBench()
	b.ReportAllocs()
	for b.Loop() {
		k.serve(k.bare)
	}
}

func BenchmarkWithoutKey(b *testing.B) {
	k := newBench()
	b.ReportAllocs()
	for b.Loop() {
		k.serve(k.guarded)
	}
}

func BenchmarkFresh(b *testing.B) {
	k := newBench()
	b.ReportAllocs()
	for b.Loop() {
		k.keyed(k.freshKey())
		k.serve(k.guarded)
	}
}

func BenchmarkReplay(b *testing.B) {
	k := newBench()
	k.keyed(k.freshKey())
	b.ReportAllocs()
	for b.Loop() {
		k.serve(k.guarded)
	}
}
