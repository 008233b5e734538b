package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// retryAfter is how long the server asks clients to wait, longer than any of them waits by itself before its second
// attempt.
const retryAfter = 3 * time.Second

// situation is how the first attempts at a request fail.
type situation struct {
	name       string
	status     int // 0: the connection is closed without an answer
	retryAfter bool
	header     string // Stripe-Should-Retry
}

func situations() []situation {
	return []situation{
		{name: "cut"},
		{name: "409", status: 409},
		{name: "409-after", status: 409, retryAfter: true},
		{name: "409-told", status: 409, header: "true"},
		{name: "429", status: 429},
		{name: "429-after", status: 429, retryAfter: true},
		{name: "503", status: 503},
		{name: "503-after", status: 503, retryAfter: true},
		{name: "503-told-not", status: 503, header: "false"},
	}
}

func names() (all []string) {
	for _, s := range situations() {
		all = append(all, s.name)
	}
	return all
}

// failedAttempts is how many attempts fail before one succeeds.
const failedAttempts = 2

// server fails as a request's key says, and notes when attempts come.
type server struct {
	mu   sync.Mutex
	seen map[string][]time.Time // by key
}

func (s *server) note(key string) (attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key] = append(s.seen[key], time.Now())
	return len(s.seen[key])
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setup, name, err := fromKey(r.Header.Get("Idempotency-Key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.note(key(setup, name)) > failedAttempts {
		fmt.Fprint(w, `{"id":"ch_1","object":"charge"}`)
		return
	}
	for _, now := range situations() {
		if now.name == name {
			now.fail(w)
		}
	}
}

func (s situation) fail(w http.ResponseWriter) {
	if s.status == 0 {
		panic(http.ErrAbortHandler)
	}
	if s.retryAfter {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	if s.header != "" {
		w.Header().Set("Stripe-Should-Retry", s.header)
	}
	w.WriteHeader(s.status)
	code := map[int]string{409: "idempotency_key_in_use", 429: "rate_limit", 503: "store_unavailable"}[s.status]
	fmt.Fprintf(w, `{"error":{"type":"api_error","code":%q,"message":"the survey wants it so"}}`, code)
}

// attempts returns how often a set-up sent its request in a situation, and how long it waited before the second
// attempt.
func (s *server) attempts(setup, situation string) (n int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.seen[key(setup, situation)]
	if len(at) > 1 {
		wait = at[1].Sub(at[0])
	}
	return len(at), wait
}

// print prints the table.
func (s *server) print(w io.Writer) error {
	fmt.Fprintln(w, "| client | connection cut | 409 | 429 | 503 | `Retry-After` | first wait "+
		"|\n|---|---|---|---|---|---|---|")
	for _, row := range rows() {
		cells := []string{row.title}
		for _, situation := range []string{"cut", "409", "429", "503"} {
			n, _ := s.attempts(row.setup, situation)
			if n == 0 {
				return fmt.Errorf("%s sent nothing in the situation %s", row.setup, situation)
			}
			cells = append(cells, retried(n))
		}
		cells = append(cells, s.obeys(row.setup), s.firstWait(row.setup))
		fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |")
	}
	for _, row := range rows() {
		told, _ := s.attempts(row.setup, "409-told")
		plain, _ := s.attempts(row.setup, "409")
		stop, _ := s.attempts(row.setup, "503-told-not")
		going, _ := s.attempts(row.setup, "503")
		if told != plain || stop != going {
			fmt.Fprintf(w, "\n`Stripe-Should-Retry` changes what %s does: 409 with true: %s; 503 with false: %s.\n",
				row.setup, retried(told), retried(stop))
		}
	}
	return nil
}

func retried(attempts int) string {
	switch {
	case attempts == 1:
		return "–"
	case attempts <= failedAttempts:
		return fmt.Sprintf("%d retry", attempts-1)
	}
	return "retries"
}

// obeys says for which statuses a set-up waits as long as it is told.
func (s *server) obeys(setup string) string {
	var yes, no []string
	for _, status := range []string{"409", "429", "503"} {
		n, wait := s.attempts(setup, status+"-after")
		switch {
		case n < 2:
		case wait >= retryAfter-50*time.Millisecond:
			yes = append(yes, status)
		default:
			no = append(no, status)
		}
	}
	switch {
	case len(yes)+len(no) == 0:
		return "–"
	case len(no) == 0:
		return "obeyed"
	case len(yes) == 0:
		return "ignored"
	}
	return "obeyed for " + strings.Join(yes, ", ") + ", ignored for " + strings.Join(no, ", ")
}

// firstWait is how long a set-up waits before its second attempt when nothing tells it how long.
func (s *server) firstWait(setup string) string {
	for _, situation := range []string{"503", "429", "cut"} {
		if n, wait := s.attempts(setup, situation); n > 1 {
			return fmt.Sprintf("%.1f s", wait.Seconds())
		}
	}
	return "–"
}
