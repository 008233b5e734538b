//go:build unix

package exactlyonce

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/outbox"
)

// inboxStand is a database with an inbox, the proxies that use it, and the services behind them. Each language has a route.
type inboxStand struct {
	*stand // without its database
	*inboxDatabase
	box *outbox.Outbox
	// proxies are two with a server, and one with a file, which can have no more.
	proxies []*proxy
	dice    *rand.Rand
	sum     *inboxCounts

	mu       sync.Mutex
	requests []*request
}

// request is one order in an inbox, and what its client was told. The client leaves with its 202.
type request struct {
	row
	order string
	// next is an order of the same aggregate, which the client sends after its 202. It must be charged later.
	next *request
	// struck says that the victim was killed or paused while the request stood at the boundary.
	struck   bool
	accepted atomic.Bool
	refused  bool // a second request with the key and another order
	err      error
	done     chan struct{} // closed when the client has left
}

// key is what the inbox calls the request.
func (r *request) key() string { return retrysafe.Key{ID: r.order}.String() }

// newInboxStand starts proxies and services. The seed decides what the test leaves to chance.
func newInboxStand(t *testing.T, d *inboxDatabase, sum *inboxCounts, seed uint64) *inboxStand {
	t.Helper()
	s := &inboxStand{
		stand: &stand{T: t, breakpoints: newBreakpoints(t)}, inboxDatabase: d, sum: sum,
		dice: rand.New(rand.NewPCG(seed, 0)),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; the end of the log of services and proxies:\n%s", seed, s.log.end(8000))
		}
	})
	environment := []string{"DATABASE=" + d.service, "BOUNDARIES=" + s.Addr().String(), "COMPLETE=never"}
	complete := ""
	if d.completes {
		environment[2], complete = "COMPLETE=inside", "complete: upstream, "
		for statement := range strings.Lines(tables) {
			if _, err := d.db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := fmt.Sprintf("upstream: http://127.0.0.1:1\nstore: %s\nscope: none\nlisten: 127.0.0.1:0\nlog: json\nroutes:\n", d.store)
	for _, l := range d.languages {
		config += fmt.Sprintf("  %s: {upstream: %s, %stimeout: %v, lease: %v, accept: inbox, wait: 1s, "+
			"deliver: {order: /aggregate, first_delay: 500ms, max_delay: 20s, attempts: 1000}}\n",
			topic(l), l.start(s.stand, environment...), complete, timeout, lease)
	}
	s.proxies = []*proxy{startProxy(s.stand, config)}
	if d.server != nil {
		s.proxies = append(s.proxies, startProxy(s.stand, config))
	}
	var err error
	if s.box, err = outbox.New(d.db, d.dialect, outbox.Options{Table: "retrysafe_inbox"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// topic is the route of a language.
func topic(l language) string { return "POST /" + l.name + "/charges" }

// begin makes n new orders for each language.
func (s *inboxStand) begin(victim, boundary string, n int) (all []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		for _, l := range s.languages {
			r := &request{
				row: row{s.name, victim, boundary, l.name}, order: fmt.Sprintf("order-%d", s.orders.Add(1)), done: make(chan struct{}),
			}
			r.next = &request{row: r.row, order: r.order + "/next"}
			all = append(all, r)
			s.requests = append(s.requests, r, r.next)
		}
	}
	return all
}

// start sends an order until it is accepted, then another one with its key, which must be refused, then the next of the
// aggregate.
func (s *inboxStand) start(all ...*request) {
	for _, r := range all {
		go func() {
			defer close(r.done)
			if s.accept(r); r.err == nil {
				s.forge(r)
				s.accept(r.next)
			}
		}()
	}
}

func (s *inboxStand) urls(r *request) (all []func() string) {
	for _, p := range s.proxies {
		all = append(all, func() string { return p.address() + "/" + r.language })
	}
	return all
}

func (s *inboxStand) accept(r *request) {
	a, err := charge(s.Context(), r.order, attemptTimeout, true, "respond-async", s.urls(r)...)
	if err == nil && a.code != http.StatusAccepted {
		err = fmt.Errorf("answered %d %s", a.code, a.body)
	}
	r.err = err
	r.accepted.Store(err == nil)
}

// forge sends another order with the key of one that was accepted. Whatever answer it gets, it must not be charged.
func (s *inboxStand) forge(r *request) {
	ctx, cancel := context.WithTimeout(s.Context(), attemptTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.urls(r)[0]()+"/charges", strings.NewReader(body(r.order+"/forged")))
	if err != nil {
		s.Error(err)
		return
	}
	q.Header.Set("Idempotency-Key", r.order)
	q.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(q)
	if err != nil {
		return // something was killed
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode < 300 {
		s.Errorf("%s: another order with its key got %d %s", r.order, answer.StatusCode, text)
	}
	r.refused = answer.StatusCode == http.StatusUnprocessableEntity
}

// stopOthers lets only the first proxy deliver, until the function that it returns is called.
func (s *inboxStand) stopOthers() (resume func()) {
	for _, p := range s.proxies[1:] {
		p.signal(syscall.SIGSTOP)
	}
	return func() {
		for _, p := range s.proxies[1:] {
			p.signal(syscall.SIGCONT)
		}
	}
}

// lockTable keeps writers waiting, until the function that it returns is called.
func (s *inboxStand) lockTable() (release func()) {
	s.Helper()
	var conn *sql.Conn
	s.eventually(s.lock, func(ctx context.Context) (err error) {
		if conn, err = s.db.Conn(ctx); err != nil {
			return err
		}
		for _, statement := range []string{map[outbox.Dialect]string{outbox.PostgreSQL: "BEGIN"}[s.dialect], s.lock} {
			if _, err = conn.ExecContext(ctx, statement); err != nil && statement != "" {
				conn.Close()
				return err
			}
		}
		return nil
	})
	return func() {
		_, _ = conn.ExecContext(context.Background(), s.unlock) // an error means that the server was killed
		conn.Close()
	}
}

// eachTopic calls f for the route of each language until it succeeds.
func (s *inboxStand) eachTopic(what string, f func(ctx context.Context, topic string) error) {
	s.Helper()
	for _, l := range s.languages {
		s.eventually(what, func(ctx context.Context) error { return f(ctx, topic(l)) })
	}
}

// age lets the leases on requests end that a relay has taken, as if half a minute had passed. Those that a transaction has
// locked are left out after a moment: they wait.
func (s *inboxStand) age() {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	_, _ = s.db.ExecContext(ctx, "UPDATE retrysafe_inbox SET due_at = due_at - 30000000 WHERE state = 1 AND owner <> ''")
}

// look returns those requests that stand at a boundary, and how many are beyond it. Nothing stands there if the database
// does not answer.
func (s *inboxStand) look(all []*request, boundary string) (standing []*request, beyond int) {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	keys := make([]string, len(all))
	for i, r := range all {
		keys[i] = r.key()
	}
	found, err := s.box.Status(ctx, keys...)
	if err != nil {
		return nil, 0
	}
	records := map[string]string{}
	rows, err := s.db.QueryContext(ctx, s.records)
	if err != nil {
		return nil, 0
	}
	defer rows.Close()
	for rows.Next() {
		var id, state string
		if err := rows.Scan(&id, &state); err != nil {
			s.Fatal(err)
		}
		records[id] = state
	}
	for _, r := range all {
		var status outbox.Status
		if i := slices.IndexFunc(found, func(f outbox.Status) bool { return f.Key == r.key() }); i >= 0 {
			status = found[i]
		}
		state := records[r.order]
		ended := state == "succeeded" || state == "failed"
		var here, past bool
		switch boundary {
		case accepted:
			here, past = status.State != 0 && !r.accepted.Load(), r.accepted.Load()
		case taken:
			here, past = status.InFlight && state == "", state != ""
		case unmarked:
			here, past = status.State == outbox.Pending && ended, status.State == outbox.Sent || status.State == outbox.Dead
		}
		if here {
			standing = append(standing, r)
		}
		if past {
			beyond++
		}
	}
	return standing, beyond
}

// drain waits until nothing waits in the inbox. It returns the keys of the dead letters that it found, and dropped, as an
// operator does, because the requests of their aggregates wait behind them.
func (s *inboxStand) drain() (letters map[string]string) {
	s.Helper()
	letters = map[string]string{}
	aged := time.Time{}
	for late, waiting := time.Now().Add(patience), -1; waiting != 0; pause(s.Context(), 50*time.Millisecond) {
		if time.Now().After(late) {
			s.Fatalf("%d requests wait in the inbox", waiting)
		}
		if time.Since(aged) > lease { // processes that had taken some were killed
			s.age()
			aged = time.Now()
		}
		s.eventually("dead letters", func(ctx context.Context) error {
			dead, err := s.box.PeekDead(ctx, 0, 1000)
			for _, l := range dead {
				letters[l.Key] = l.Error
				_, e := s.box.Cancel(ctx, "the outcome is unknown", l.Key)
				err = errors.Join(err, e)
			}
			return err
		})
		s.eventually("the requests that wait", func(ctx context.Context) error {
			return s.db.QueryRowContext(ctx, "SELECT count(*) FROM retrysafe_inbox WHERE state <> 2").Scan(&waiting)
		})
	}
	return letters
}

// inboxCount is what became of the requests at a place.
type inboxCount struct {
	struck map[string]int // by database
	// doubled were charged more than once. lost were acknowledged, are not charged, and are no dead letters. unknown are dead
	// letters. disordered were charged after the next of their aggregate.
	doubled, lost, unknown, disordered int
}

// inboxCounts is the table.
type inboxCounts struct {
	mu  sync.Mutex
	all map[at]*inboxCount
}

// at is where it is struck.
type at struct{ victim, boundary string }

// mustBeRight drains the inbox, compares it with the ledger and with what clients were told, and counts.
func (s *inboxStand) mustBeRight(strikes int) {
	s.Helper()
	letters := s.drain()
	charges := s.ledger(s)
	struck, acknowledged, refused, effects := 0, 0, 0, 0
	s.sum.mu.Lock()
	defer s.sum.mu.Unlock()
	for _, r := range s.requests {
		where := at{r.victim, r.boundary}
		n := s.sum.all[where]
		if n == nil {
			n = &inboxCount{struck: map[string]int{}}
			s.sum.all[where] = n
		}
		wrong := func(what string, args ...any) {
			s.Errorf("%s: %s, %s, %s: %s", r.order, r.language, r.victim, boundaryNames[r.boundary], fmt.Sprintf(what, args...))
		}
		mine := charges[r.order]
		delete(charges, r.order)
		effects += len(mine)
		letter, isDead := letters[r.key()]
		if r.struck {
			n.struck[s.name]++
			struck++
		}
		if r.accepted.Load() {
			acknowledged++
		}
		if r.refused {
			refused++
		}
		switch {
		case r.err != nil:
			wrong("%v", r.err)
		case len(mine) > 1:
			n.doubled++
			wrong("charged %d times", len(mine))
		case isDead:
			n.unknown++
			if s.completes || !strings.Contains(letter, "unknown") {
				wrong("a dead letter: %s", letter)
			}
		case r.accepted.Load() && len(mine) == 0:
			n.lost++
			wrong("acknowledged, and not charged")
		case s.completes && len(mine) == 1:
			if got := s.again(r); got != mine[0] {
				wrong("the charge is %d, and a retry is told %d", mine[0], got)
			}
		}
		if r.next != nil && !isDead && len(mine) == 1 {
			if later := charges[r.next.order]; len(later) == 1 && later[0] < mine[0] {
				n.disordered++
				wrong("charged after the next of its aggregate")
			}
		}
	}
	for order, ids := range charges {
		s.Errorf("%s: charges %v of an order that was refused, or never sent", order, ids)
	}
	s.Logf("%s: %d faults hit requests at %d boundaries; %d requests acknowledged, %d refused; %d effects, %d dead letters",
		s.name, strikes, struck, acknowledged, refused, effects, len(letters))
}

// again returns the charge that a retry is told.
func (s *inboxStand) again(r *request) int {
	a, err := charge(s.Context(), r.order, attemptTimeout, false, "", s.urls(r)...)
	if err != nil {
		s.Error(err)
	}
	var said struct{ Charge int }
	_ = json.Unmarshal([]byte(a.body), &said) // said is 0 then
	return said.Charge
}

// print writes the table, in Markdown.
func (c *inboxCounts) print(t *testing.T, seed uint64) {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| victim | boundary | PostgreSQL | MariaDB | SQLite | doubled | lost | out of order | unknown |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, victim := range victims() {
		for _, boundary := range inboxBoundaries {
			if n := c.all[at{victim, boundary}]; n != nil {
				fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d |\n", victim, boundaryNames[boundary],
					n.struck["PostgreSQL"], n.struck["MariaDB"], n.struck["SQLite"], n.doubled, n.lost, n.disordered, n.unknown)
			}
		}
	}
	t.Logf("seed %d\n%s", seed, &b)
}

// signalIfAlive is for a proxy that may have been killed.
func (p *proxy) signalIfAlive(signal syscall.Signal) {
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Error(err)
	}
}
