package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/load"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Goal 17: how many requests an inbox accepts in a second, beside plain INSERTs of as many callers on the same server, and
// what it delivers to a service that answers at once. Keys are in memory, so that the inbox alone is measured. And the
// proxy with an inbox in a SQLite file beside Restate's ingress, to which one sends without waiting for the answer.

// inboxTargets returns targets by number of callers. Without one, the figure is for information.
func inboxTargets() map[int]*figure.Target {
	return map[int]*figure.Target{16: figure.AtLeast(0.7), 64: figure.AtLeast(0.7)}
}

func inboxGoal(ctx context.Context, r *run) error {
	if err := inboxPostgres(ctx, r); err != nil || r.profiled != 0 {
		return err
	}
	return inboxRestate(ctx, r)
}

func inboxPostgres(ctx context.Context, r *run) (err error) {
	r.progress("start PostgreSQL")
	s, err := startPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.exec(ctx, "CREATE TABLE plain_inbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"); err != nil {
		return err
	}
	all := []int{1, 16, 64, 256}
	if r.profiled != 0 {
		all = []int{64}
	}
	for _, callers := range all {
		r.progress("an inbox and plain INSERTs, %s", callersText(callers))
		got, err := call[results](ctx, r.here(), accepting{
			race: r.race(5, 3, 1500*time.Millisecond), URL: s.url(), Server: s.PID(), Callers: callers,
			Theirs: r.theirs(callers),
		})
		if err != nil {
			return err
		}
		r.addHere(ctx, got.rates("inbox ÷ plain INSERTs, accepted/s, "+callersText(callers), "requests/s").
			Want(inboxTargets()[callers]).
			Note("CPU of server and client: %v and %v µs a request", got[ours].CPU, got[theirs].CPU))
	}
	if r.profiled != 0 {
		return nil
	}
	in := delivering{URL: s.url(), Rounds: r.rounds(5, 2), Requests: 4_000, Callers: 16}
	if r.Quick {
		in.Requests = 2_000
	}
	r.progress("an inbox that delivers")
	got, err := call[deliveringFound](ctx, r.here(), in)
	if err != nil {
		return err
	}
	r.addHere(ctx, figure.New("delivered from an inbox, 64 at once", "/s", got.Delivered...).
		Note("%d requests; no target, since it depends on CPU and disk", in.Requests))
	r.addHere(ctx, figure.New("acceptance to delivery, 16 callers, p50", "ms", got.P50...).
		Note("p99 %v ms; %v accepted and delivered a second, by callers without a pause", got.P99, got.Both))
	return nil
}

// acceptor is an inbox with its own guard, which accepts requests and delivers them to a handler.
type acceptor struct {
	db      *sql.DB
	in      *inbox.Inbox
	guarded http.Handler
	next    atomic.Int64
}

func openAcceptor(ctx context.Context, url string, handler http.HandlerFunc) (*acceptor, error) {
	db, box, err := openOutbox(ctx, url, "inbox")
	if err != nil {
		return nil, err
	}
	guard := retrysafe.New(memstore.New(memstore.Options{MaxKeys: 1 << 30, MaxBytes: 1 << 40}), retrysafe.Options{})
	in := inbox.New(box, "POST /hooks", inbox.Options{Concurrency: 64, MaxPerCaller: 1 << 30, MaxWaiting: 1 << 30})
	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Inbox: in, StatusPath: "/status"})
	return &acceptor{db: db, in: in, guarded: once(handler)}, nil
}

// accept has a fresh request accepted.
func (a *acceptor) accept(context.Context) error {
	r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(peers.RequestBody))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", fmt.Sprintf(`"%08x-0000-4000-8000-%012d"`, os.Getpid(), a.next.Add(1)))
	r.Header.Set("Sent", time.Now().Format(time.RFC3339Nano))
	w := httptest.NewRecorder()
	if a.guarded.ServeHTTP(w, r); w.Code != http.StatusAccepted {
		return fmt.Errorf("answer %d: %s", w.Code, w.Body)
	}
	return nil
}

// accepting compares an inbox, of which nothing is delivered, with plain INSERTs.
type accepting struct {
	race
	URL                     string
	Server, Callers, Theirs int
}

func (in accepting) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	a, err := openAcceptor(ctx, in.URL, func(http.ResponseWriter, *http.Request) {})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.db.Close()) }()
	body := []byte(peers.RequestBody)
	insert := func(ctx context.Context) error {
		_, err := a.db.ExecContext(ctx, "INSERT INTO plain_inbox (body) VALUES ($1)", body)
		return err
	}
	read := func(context.Context) (c counters, err error) {
		c.cpu, err = familyCPU(in.Server)
		c.cpu += time.Duration(cpuNanos())
		return c, err
	}
	return in.run(ctx, side{name: theirs, peer: peers.Each(insert), callers: in.Theirs, read: read},
		side{name: ours, peer: peers.Each(a.accept), callers: in.Callers, read: read})
}

// delivering delivers so many requests that wait, and then those that callers send meanwhile.
type delivering struct {
	URL                       string
	Rounds, Requests, Callers int
}

// deliveringFound holds a value for each round: requests delivered in a second, and, while callers send, the requests that
// were delivered in a second, and the milliseconds from a request's acceptance to its delivery.
type deliveringFound struct{ Delivered, Both, P50, P99 figure.Samples }

func (in delivering) play(ctx context.Context, _ func(any) error) (any, error) {
	var found deliveringFound
	for range in.Rounds {
		if err := in.round(ctx, &found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (in delivering) round(ctx context.Context, found *deliveringFound) (err error) {
	var mu sync.Mutex
	var lags figure.Samples
	a, err := openAcceptor(ctx, in.URL, func(_ http.ResponseWriter, r *http.Request) {
		at, _ := time.Parse(time.RFC3339Nano, r.Header.Get("Sent"))
		mu.Lock()
		defer mu.Unlock()
		lags = append(lags, millis(time.Since(at)))
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.db.Close()) }()
	if _, err := a.db.ExecContext(ctx, "TRUNCATE inbox"); err != nil {
		return err
	}
	if err := in.send(ctx, a, 64); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		_ = a.in.Run(running, a.guarded) // with running's error
	}()
	defer func() {
		stop()
		<-ended
	}()
	delivered := func() (perSecond float64, all figure.Samples) {
		for {
			mu.Lock()
			if len(lags) >= in.Requests || ctx.Err() != nil {
				all, lags = lags, nil
				mu.Unlock()
				return float64(in.Requests) / time.Since(began).Seconds(), all
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}
	rate, _ := delivered()
	found.Delivered = append(found.Delivered, rate)
	began = time.Now()
	if err := in.send(ctx, a, in.Callers); err != nil {
		return err
	}
	rate, all := delivered()
	found.Both = append(found.Both, rate)
	found.P50, found.P99 = append(found.P50, all.Median()), append(found.P99, all.Quantile(0.99))
	return ctx.Err()
}

func (in delivering) send(ctx context.Context, a *acceptor, callers int) error {
	return forEach(ctx, callers, 0, int64(in.Requests), func(ctx context.Context, _ int64) error { return a.accept(ctx) })
}

// inboxRoutes is the configuration of the proxy beside Restate, which admits a million requests that wait.
const inboxRoutes = `routes:
  POST /payments:
    accept: inbox
    deliver: {concurrency: 64, max_waiting: 1000000, max_per_caller: 1000000}
`

// inboxRestate compares the proxy with an inbox with Restate, to which requests are sent without waiting.
func inboxRestate(ctx context.Context, r *run) error {
	peer, err := r.installRestate(ctx)
	if err != nil {
		return err
	}
	command, err := real.Retrysafe()
	if err != nil {
		return err
	}
	for _, d := range r.disks() {
		m := match{run: r, disk: d, dir: filepath.Join(r.dir, "goal17", d.Name), routes: inboxRoutes}
		if err := m.sendOnly(ctx, command, peer); err != nil {
			return err
		}
	}
	return nil
}

// sendOnly compares requests that are accepted, and all delivered in the end.
func (m *match) sendOnly(ctx context.Context, command, peer string) (err error) {
	defer func() { err = errors.Join(err, m.servers.end()) }()
	if err := m.start(ctx, command, peer); err != nil {
		return err
	}
	m.restate.Path += "/send"
	m.progress("accepted requests, %d connections, disk %s", connections, m.disk.Name)
	sync, err := m.sync(ctx, m.disk)
	if err != nil {
		return err
	}
	waits := map[string]*figure.Samples{ours: {}, theirs: {}}
	got, err := m.race(5, 3, 2*time.Second).run(ctx, m.restate.side(theirs, m.restate.accepted(waits[theirs]), connections),
		m.ours.side(ours, m.ours.accepted(waits[ours]), connections))
	if err != nil {
		return err
	}
	delivered := func(name string) figure.Samples { return (*waits[name])[1:] } // without the round of warm-up
	fig := got.rates("inbox + SQLite ÷ Restate's send, accepted/s", "requests/s").On(m.disk.Name).Want(figure.AtLeast(1)).
		Note("CPU of the server, with the delivery: %v and %v µs a request", got[ours].CPU, got[theirs].CPU)
	fig.Sync = sync.Samples.Median()
	if m.ours.trace != "" {
		fig = fig.Note("syncs a request: %.2f and %.2f", got[ours].Syncs.Median(), got[theirs].Syncs.Median())
	}
	m.add(ctx, fig)
	m.add(ctx, figure.Ratio("the same, accepted and delivered/s", delivered(ours), delivered(theirs), "requests/s").
		On(m.disk.Name).Want(figure.AtLeast(1)).Note("until the service has seen the last; 64 connections"))
	m.add(ctx, figure.Ratio("p50 of the acceptance: ours ÷ Restate's", got[ours].P50, got[theirs].P50, "µs").On(m.disk.Name))
	return nil
}

// accepted is a Peer whose requests are answered before they are delivered. It returns when all are, and notes how many were
// accepted and delivered in a second.
func (q *requests) accepted(delivered *figure.Samples) peers.Peer {
	return func(ctx context.Context, connections int, d time.Duration) (done peers.Done, err error) {
		before, err := ran(ctx, q.upstream)
		if err != nil {
			return done, err
		}
		q.runs++
		began := time.Now()
		got, err := load.Run(q.Target, load.Keys{Run: q.runs}, connections, d, 0)
		if err != nil {
			return done, err
		}
		n := int64(len(got.Micros))
		for left := n; left > 0; {
			if time.Since(began) > d+time.Minute {
				return done, fmt.Errorf("%d of %d accepted requests are not delivered after a minute", left, n)
			}
			time.Sleep(2 * time.Millisecond)
			after, err := ran(ctx, q.upstream)
			if err != nil {
				return done, err
			}
			if left = n - (after - before); left < 0 {
				return done, fmt.Errorf("the work ran %d times, not %d", after-before, n)
			}
		}
		*delivered = append(*delivered, float64(n)/time.Since(began).Seconds())
		q.sent += n
		return peers.Done{Count: n, PerSecond: got.PerSecond(), P50: got.Micros.Median()}, nil
	}
}
