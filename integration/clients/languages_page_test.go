package clients

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// situation is an answer that the page speaks of, and what it says of it. That this is what httpclient.Transport
// does, and that no code is missing, is shown by tests of httpsafe.
type situation struct {
	name  string
	write func(w http.ResponseWriter)
	again bool // send again
	exit  int  // otherwise
}

// rowsOf returns the rows of the table under a heading of the page, as cells.
func rowsOf(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, section, _ := strings.Cut(page(t), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| `") {
			rows = append(rows, cells)
		}
	}
	return rows
}

var inCode = regexp.MustCompile("`([^`]+)`")

// situations returns the n-th of the answers of each row, so that different programs get different ones.
func situations(t *testing.T, n int) (all []situation) {
	t.Helper()
	for _, row := range rowsOf(t, "What an answer means") {
		var statuses []int
		header := http.Header{}
		for _, m := range inCode.FindAllStringSubmatch(row[0], -1) {
			if status, err := strconv.Atoi(m[1]); err == nil {
				statuses = append(statuses, status)
			} else if name, value, ok := strings.Cut(m[1], ": "); ok {
				header.Set(name, value)
			}
		}
		if len(statuses) == 0 { // no answer, or an error document
			continue
		}
		status := statuses[n%len(statuses)]
		s := situation{name: fmt.Sprintf("%d, %s", status, row[0]), again: row[1] == "yes", exit: 1}
		switch {
		case row[2] == "unknown":
			s.exit = 2
		case status < 300:
			s.exit = 0
		}
		s.write = func(w http.ResponseWriter) {
			for name := range header {
				w.Header().Set(name, header.Get(name))
			}
			w.WriteHeader(status)
		}
		all = append(all, s)
	}
	for _, row := range rowsOf(t, "Codes") {
		status, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		p := httpsafe.Problem{
			Slug: httpsafe.Slug(strings.Trim(row[0], "|` ")), Status: status, Title: "title", Detail: "detail", Retryable: row[2] == "yes", Executed: "no",
		}
		s := situation{name: string(p.Slug), again: p.Retryable, exit: 1}
		if row[3] == "unknown" {
			p.Executed, s.exit = "unknown", 2
		}
		s.write = func(w http.ResponseWriter) {
			httpsafe.Options{Profile: httpsafe.IETF(), PolicyURL: "/policy"}.WriteProblem(w, p)
		}
		all = append(all, s)
	}
	all = append(all, situation{name: "202, in-flight", again: true, write: func(w http.ResponseWriter) {
		w.Header().Set("Idempotency-Status", "in-flight")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"state":"pending"}`)
	}})
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} { // after an attempt that may have run
		for _, own := range []bool{false, true} { // the operation's own answer
			for _, document := range []string{"", `{"title": "sold out", "retryable": false}`} {
				all = append(all, situation{
					fmt.Sprintf("no answer, then %d, executed: %v, %s", status, own, document),
					func(w http.ResponseWriter) {
						if document != "" {
							w.Header().Set("Content-Type", "application/problem+json")
						}
						if own {
							w.Header().Set("Idempotency-Status", "executed; exp=@2000000000")
						}
						w.WriteHeader(status)
						fmt.Fprint(w, document)
					}, false, map[bool]int{false: 2, true: 1}[own],
				})
			}
		}
	}
	return all
}

// stand answers the first request for each path as its situation says, and later ones with 201.
type stand struct {
	*httptest.Server
	mu         sync.Mutex
	situations map[string]situation // by path
	sent       map[string][]string  // the keys of the requests for a path
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{situations: map[string]situation{}, sent: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.sent[r.URL.Path] = append(s.sent[r.URL.Path], r.Header.Get("Idempotency-Key"))
		n, x := len(s.sent[r.URL.Path]), s.situations[r.URL.Path]
		s.mu.Unlock()
		lost := strings.HasPrefix(x.name, "no answer")
		switch {
		case n == 1 && lost:
			panic(http.ErrAbortHandler)
		case n == 1 || lost:
			x.write(w)
		default:
			w.Header().Set("Idempotency-Status", "executed; exp=@2000000000")
			w.WriteHeader(http.StatusCreated)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// The programs of the page do with each answer what its tables say. Seen to fail, in each of the three, with these
// taken out: 2xx, a 2xx in flight, unknown, its parameter retry, a replayed 5xx, ignored, retryable, executed, 408 to
// 429, 5xx, 501 and 511, that an attempt may have run, and that executed ends that.
func TestTheProgramsOfThePageFollowItsTables(t *testing.T) {
	s := newStand(t)
	var programs []func()
	for i, l := range languages(t) {
		p, all := l.payer(t), situations(t, i)
		if len(all) < 35 {
			t.Errorf("%d situations; are the tables read?", len(all))
		}
		for n, x := range all {
			path := fmt.Sprintf("/%s/%d", l.fence, n)
			s.put(path, x)
			programs = append(programs, func() { s.check(t, p, path, fmt.Sprint(n)) })
		}
	}
	var running sync.WaitGroup
	places := make(chan bool, 8)
	for _, program := range programs {
		places <- true
		running.Go(func() {
			program()
			<-places
		})
	}
	running.Wait()
}

// put is called before the programs run, which the race detector cannot see through their processes.
func (s *stand) put(path string, x situation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.situations[path] = x
}

// check runs a program in the situation of a path.
func (s *stand) check(t *testing.T, p payer, path, order string) {
	x, want, requests := s.situations[path], s.situations[path].exit, 1
	if x.again {
		want, requests = 0, 2
	}
	if strings.HasPrefix(x.name, "no answer") {
		requests = 2
	}
	exit, _, err := p.pay(t.Context(), s.URL+path, order)
	s.mu.Lock()
	sent := s.sent[path]
	s.mu.Unlock()
	if exit != want || err != nil || len(sent) != requests || sent[0] == "" || sent[0] != sent[len(sent)-1] {
		t.Errorf("%s, %s: exit %d after requests with keys %q, %v; want %d after %d", p.name, x.name, exit, sent, err, want, requests)
	}
}
