package tailcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/proxy"
)

func newHub() *Hub { return &Hub{Routes: func() []string { return []string{"POST /payments"} }} }

func replay(path string) proxy.Event {
	return proxy.Event{
		Kind: retrysafe.AnswerReplayed, Method: "POST", Path: path, Route: "POST /payments", Status: 201, Scope: "shop",
		Key: retrysafe.Key{Scope: "shop", ID: "raw-key"}.Digest(), Took: time.Millisecond,
	}
}

// waitUntil waits a minute for a condition.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited too long: %s", what)
		}
	}
}

// A command prints what its filter selects, and goes on after a broken connection.
//
// Seen to fail with selects taken out of Observe, and with the error of read returned by follow.
func TestTailFollows(t *testing.T) {
	t.Parallel()
	h := newHub()
	server := httptest.NewServer(h)
	defer server.Close()
	var out, log bytes.Buffer
	c := Cmd{Admin: server.URL, Route: "POST /payments", Outcome: "answer_replayed", Caller: "shop", Limit: 2}
	address, err := c.address()
	if err != nil {
		t.Fatal(err)
	}
	tail := &tail{Cmd: c, streams: &cli.Streams{Out: &out, Err: &log}}
	ended := make(chan error, 1)
	go func() { ended <- tail.follow(t.Context(), address) }()
	listens := func() bool { return h.count.Load() == 1 }
	waitUntil(t, "the command listens", listens)

	others := []proxy.Event{replay("/other"), replay("/other"), replay("/other")}
	others[0].Route, others[1].Scope, others[2].Kind = "", "bank", retrysafe.MismatchRefused
	for _, e := range append(others, replay("/first\x1b[2J")) {
		h.Observe(t.Context(), e)
	}
	h.mu.Lock()
	var first *listener
	for first = range h.listeners {
	}
	h.mu.Unlock()
	waitUntil(t, "the event is taken", func() bool { return len(first.events) == 0 })
	server.CloseClientConnections()
	waitUntil(t, "the first connection is closed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		_, there := h.listeners[first]
		return !there
	})
	waitUntil(t, "the command listens again", listens)
	for done := false; !done; { // the first event may have been lost with the connection
		h.Observe(t.Context(), replay("/second"))
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	if text := out.String(); strings.Contains(text, "/other") || !strings.Contains(text, "/second") ||
		!cli.IsText(out.Bytes()) || strings.Contains(text, "raw-key") {
		t.Errorf("printed:\n%q", text)
	}
	if !strings.Contains(log.String(), "events may be missing") {
		t.Errorf("the broken connection is not mentioned: %s", log.String())
	}
}

// unbound is a connection without an end.
type unbound struct {
	*httptest.ResponseRecorder
	written func()
}

func (unbound) SetWriteDeadline(time.Time) error { return nil }

func (u unbound) Write(b []byte) (int, error) {
	u.written()
	return u.ResponseRecorder.Write(b)
}

// A slow reader holds up no request and no more memory than its buffer, and is told how many events it has missed.
//
// Seen to fail with the default case taken out of Observe ("blocked"), and with Lost not set in send.
func TestSlowReaderIsTold(t *testing.T) {
	t.Parallel()
	h := newHub()
	l := h.join(filter{})
	for range maxBuffered + 5 {
		h.Observe(t.Context(), replay("/"))
	}
	ctx, stop := context.WithCancel(t.Context())
	lines := 0
	w := unbound{httptest.NewRecorder(), func() {
		if lines++; lines == maxBuffered+1 {
			stop()
		}
	}}
	_ = l.send(ctx, w) // ends with ctx
	h.leave(l)
	var lost []int64
	for line := range strings.Lines(strings.TrimSpace(w.Body.String())) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		lost = append(lost, e.Lost)
	}
	if len(lost) != maxBuffered || lost[0] != 5 || lost[1] != 0 {
		t.Errorf("%d events were sent, and said of the lost ones: %v …", len(lost), lost[:min(2, len(lost))])
	}
}

// Seen to fail with maxListeners taken out of join ("one too many: 200").
func TestListenersAreFew(t *testing.T) {
	t.Parallel()
	h := newHub()
	server := httptest.NewServer(h)
	defer server.Close()
	var all []io.Closer
	for range maxListeners {
		res, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, res.Body)
	}
	get := func(query string) (int, string) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return res.StatusCode, ""
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if status, text := get(""); status != http.StatusServiceUnavailable || !strings.Contains(text, "the limit") {
		t.Errorf("one too many: %d %s", status, text)
	}
	for query, says := range map[string]string{
		"?outcome=lost": "answer_replayed", "?route=GET+/": "POST /payments, everything else", "?rout=x": "route, outcome and caller",
		"?route=a&route=b": "once each",
	} {
		if status, text := get(query); status != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	for _, one := range all {
		one.Close()
	}
	waitUntil(t, "all have left", func() bool { return h.count.Load() == 0 })
	if status, _ := get(""); status != http.StatusOK {
		t.Errorf("after the others have left: %d", status)
	}
}

// unread is an error whose text must not be asked for.
type unread struct{ t *testing.T }

func (u unread) Error() string {
	u.t.Error("an event is written although there is no listener")
	return ""
}

// Seen to fail with eventOf called before count is looked at in Observe.
func TestNothingIsComputedWithoutListeners(t *testing.T) {
	e := replay("/")
	e.Err = unread{t}
	newHub().Observe(t.Context(), e)
	h := newHub()
	h.join(filter{outcome: refused})
	h.Observe(t.Context(), e)
}

// An address that never was a proxy is reported at once.
func TestTailOfNoProxy(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for admin, says := range map[string]string{
		server.URL: "not the admin address of a proxy", "http://127.0.0.1:1": "read events", "127.0.0.1:8081": "write http://",
	} {
		c := Cmd{Admin: admin}
		address, err := c.address()
		if err == nil {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			err = (&tail{Cmd: c, streams: &cli.Streams{Out: io.Discard, Err: io.Discard}}).follow(ctx, address)
			stop()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", admin, err, fmt.Sprint(says))
		}
	}
}

// Whatever a process sends, an event is one line of text, without anything that a terminal would obey. Seen to fail
// with Clean taken out of text for the path, and for the fields.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","path":"/a\u001b[2J","outcome":"replayed","took_seconds":1e-3}`))
	f.Add([]byte(`{"key":"\u202e","scope":"\n","problem":"\u0085","error":"\ud800","took_seconds":1e300,"lost":3}`))
	f.Add([]byte(`{"status":-1,"took_seconds":-1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e Event
		if json.Unmarshal(line, &e) != nil {
			return
		}
		shown := text(e)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is shown as %q", line, shown)
		}
		again, err := json.Marshal(e)
		var same Event
		if err == nil {
			err = json.Unmarshal(again, &same)
		}
		if err != nil || !same.Time.Equal(e.Time) {
			t.Errorf("%q became %q, %v", line, again, err)
		}
		same.Time = e.Time
		if same != e {
			t.Errorf("%+v became %+v", e, same)
		}
	})
}
