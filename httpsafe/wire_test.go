package httpsafe_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// wire is a guarded handler behind a real server, with a real client.
type wire struct {
	*kit
	server *httptest.Server
	client *http.Client
	logged *safeBuffer
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newWire(t *testing.T, http2 bool) *wire {
	w := &wire{kit: newKit(t), logged: &safeBuffer{}}
	w.server = httptest.NewUnstartedServer(w.kit)
	w.server.Config.ErrorLog = log.New(w.logged, "", 0)
	var p http.Protocols
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	w.server.Config.Protocols = &p
	w.server.Start()
	transport := &http.Transport{Protocols: &p, DisableCompression: true}
	w.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.server.Close()
	})
	return w
}

// post sends a request with a key over the wire.
func (w *wire) post(key string, change ...func(*http.Request)) *answer {
	w.Helper()
	a, err := w.try(key, change...)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func (w *wire) try(key string, change ...func(*http.Request)) (*answer, error) {
	r, err := http.NewRequest(http.MethodPost, w.server.URL+"/payments", strings.NewReader("17"))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // the client must not send twice by itself
	r.Header.Set("Caller", "alice")
	r.Header.Set("Idempotency-Key", key)
	for _, f := range change {
		f(r)
	}
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return &answer{w.kit, response, string(text)}, err
}

// TestOverTheWire runs handlers of every kind behind real servers: the first answer is what net/http would have sent,
// and the retry's is the same.
func TestOverTheWire(t *testing.T) {
	for _, version := range []struct {
		name  string
		http2 bool
	}{{"HTTP1", false}, {"h2c", true}} {
		t.Run(version.name, func(t *testing.T) {
			for _, c := range []struct {
				name, sentence string
				run            func(w *wire)
			}{
				{"echo", "the body is read again, the answer replayed", wireEcho},
				{"empty", "a handler that writes nothing answers 200", wireEmpty},
				{"large", "a large body has a Content-Length and is replayed byte for byte", wireLarge},
				{"no content", "204 and 304 have no body", wireNoContent},
				{"sniffed", "a content type found by looking is the same on replay", wireSniffed},
				{"headers", "fields with several lines keep them; those of one response are not replayed", wireHeaders},
				{"interim", "interim responses pass, and are not replayed", wireInterim},
				{"trailers", "trailers are replayed", wireTrailers},
				{"flush", "flushed bytes reach the client while the handler runs", wireFlush},
				{"panic", "a panic ends the connection and is logged with its stack", wirePanic},
				{"abort", "an aborted response is cut off, and its outcome unknown", wireAbort},
				{"hang up", "a client that hangs up finds the answer later", wireHangUp},
				{"storm", "many at once: one runs, all others are refused or get its answer", wireStorm},
				{"deadlines", "deadlines and full duplex pass through", wireDeadlines},
				{"form", "uploaded files are removed", wireForm},
				{"expect", "a client that asks first need not send the body of a request that is refused", wireExpect},
				{"short", "a body shorter than announced is cut off, and not replayed as if it were whole", wireShort},
			} {
				t.Run(c.name, func(t *testing.T) {
					t.Log(c.sentence)
					c.run(newWire(t, version.http2))
				})
			}
		})
	}
}
