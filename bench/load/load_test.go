package load_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/bench/load"
)

// server records the keys that it receives.
type server struct {
	mu     sync.Mutex
	keys   map[string]int
	status int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.keys[r.Header.Get("Idempotency-Key")]++
	s.mu.Unlock()
	w.WriteHeader(s.status)
	io.WriteString(w, "got "+string(body))
}

func run(t *testing.T, status int, k load.Keys, count int) (*server, load.Result, error) {
	t.Helper()
	s := &server{keys: map[string]int{}, status: status}
	h := httptest.NewServer(s)
	defer h.Close()
	target := load.Target{
		Addr: strings.TrimPrefix(h.URL, "http://"), Path: "/pay", Body: `{"amount":5}`,
		KeyHeader: "Idempotency-Key", Quoted: true,
	}
	got, err := load.Run(target, k, 8, time.Minute, count)
	return s, got, err
}

// Seen to fail with each connection counting from "0" on.
func TestFreshKeysAreAllDifferent(t *testing.T) {
	s, got, err := run(t, 201, load.Keys{Run: 7}, 203)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Micros) != 203 || len(s.keys) != 203 {
		t.Errorf("got %d requests, %d keys; want 203", len(got.Micros), len(s.keys))
	}
	for key := range s.keys {
		if len(key) != 38 || key[0] != '"' {
			t.Fatalf("key %s is not a quoted UUID", key)
		}
	}
}

// Seen to fail with the modulo in send taken out.
func TestKeysGoRound(t *testing.T) {
	s, _, err := run(t, 200, load.Keys{Among: 10}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.keys) != 10 {
		t.Errorf("got %d keys, want 10", len(s.keys))
	}
}

// Seen to fail with the check of the status taken out.
func TestARefusalIsAnError(t *testing.T) {
	if _, _, err := run(t, 409, load.Keys{}, 8); err == nil {
		t.Error("a 409 was counted as an answer")
	}
}

// A request that had to wait for the answer of one before it took that time too, as it does for users.
//
// Seen to fail with the time counted from when the request was sent.
func TestDurationsCountFromThePlan(t *testing.T) {
	const stall, count = 200 * time.Millisecond, 100
	first := true
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if first {
			time.Sleep(stall) // the server is slow, once
		}
		first = false
	}))
	defer h.Close()
	target := load.Target{Addr: strings.TrimPrefix(h.URL, "http://"), Path: "/pay"}
	got, err := load.RunAt(target, load.Keys{}, 1, count*time.Millisecond, 1000)
	if err != nil {
		t.Fatal(err)
	}
	least := stall - count*time.Millisecond // of the last one, which was planned before the first was answered
	if len(got.Micros) != count || got.Micros.Quantile(0) < float64(least.Microseconds()) {
		t.Errorf("%d requests, the fastest took %.0f µs; want %d that waited for the first, %v or longer",
			len(got.Micros), got.Micros.Quantile(0), count, least)
	}
}

// Seen to fail with the requests sent at once.
func TestARateIsKept(t *testing.T) {
	s := &server{keys: map[string]int{}, status: 201}
	h := httptest.NewServer(s)
	defer h.Close()
	target := load.Target{Addr: strings.TrimPrefix(h.URL, "http://"), KeyHeader: "Idempotency-Key"}
	got, err := load.RunAt(target, load.Keys{Run: 7}, 8, 300*time.Millisecond, 500)
	if err != nil {
		t.Fatal(err)
	}
	if last := 298 * time.Millisecond; len(got.Micros) != 150 || len(s.keys) != 150 || got.Took < last {
		t.Errorf("%d requests with %d keys in %v, want 150 in %v or longer", len(got.Micros), len(s.keys), got.Took, last)
	}
}
