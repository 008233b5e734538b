//go:build unix

package exactlyonce

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// stand is a database server of its own, with the services that use it.
type stand struct {
	*testing.T
	*breakpoints
	pg       *servers.Postgres
	url      string // of the database, for the owner of all tables
	pool     *pgxpool.Pool
	log      text // of services and proxies
	services []*service
	counts   *counts
	thorough bool // each service is struck at each boundary

	orders atomic.Int64
	mu     sync.Mutex
	ops    []*op // all that have been begun
}

// service is a service program as it runs.
type service struct {
	language
	way     string
	direct  string    // its URL
	proxies [2]*proxy // nil without
}

// The ways in which clients reach a service.
const (
	behindProxy = "behind the proxy"
	alone       = "without the proxy"
	control     = "control: `complete` in a transaction of its own"
)

// newStand starts the services of a way. A service of another way than behindProxy claims its keys itself.
func newStand(t *testing.T, c *counts, way string, languages ...language) *stand {
	t.Helper()
	s := &stand{T: t, breakpoints: newBreakpoints(t), counts: c}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of services and proxies:\n%s", s.log.end(8000))
		}
	})
	s.pg = servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{
		"max_connections": "400", "fsync": "off", // a server that is killed, on a machine that is not, loses nothing
	}})
	s.url = s.pg.Database(t)
	var err error
	if s.pool, err = pgxpool.New(t.Context(), s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	if _, err := pgstore.Migrate(t.Context(), s.pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The order is not unique: nothing but its key keeps an order from being charged twice.
	s.exec(`CREATE TABLE prices (article text PRIMARY KEY, amount integer NOT NULL);
		INSERT INTO prices VALUES ('book', 17);
		CREATE TABLE charges (id serial PRIMARY KEY, order_id text NOT NULL, amount integer NOT NULL)`)
	environment := []string{
		"DATABASE=" + s.url, "BOUNDARIES=" + s.Addr().String(), "COMPLETE=inside",
		fmt.Sprintf("LEASE=%d milliseconds", lease.Milliseconds()),
	}
	if way == control {
		environment[2] = "COMPLETE=apart"
	}
	for _, l := range languages {
		one := &service{language: l, way: way, direct: l.start(s, environment...)}
		if way == behindProxy {
			for i := range one.proxies {
				one.proxies[i] = newProxy(s, one.direct, timeout, lease)
			}
		}
		s.services = append(s.services, one)
	}
	return s
}

func (s *stand) exec(sql string) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), sql); err != nil {
		s.Fatal(err)
	}
}

// urls returns where clients send a request: to the proxies in turn, or to the service.
func (v *service) urls() []func() string {
	if v.proxies[0] == nil {
		return []func() string{func() string { return v.direct }}
	}
	return []func() string{v.proxies[0].address, v.proxies[1].address}
}

// op is one order: what is killed or paused during it, and what its client was told.
type op struct {
	row
	service *service
	order   string
	// struck says that the victim was killed or paused while the order stood at the boundary.
	struck  bool
	answers []answer
	err     error
}

// begin makes a new order.
func (s *stand) begin(v *service, victim, boundary string) *op {
	o := &op{row: row{v.way, victim, boundary, v.name}, service: v, order: fmt.Sprintf("order-%d", s.orders.Add(1))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, o)
	return o
}

// run sends the order until there is a final answer, and then once more: every retry gets the same answer. answered is
// closed when the final answer is there.
func (o *op) run(ctx context.Context, answered chan<- struct{}) {
	defer close(answered)
	a, err := charge(ctx, o.order, attemptTimeout, false, "", o.service.urls()...)
	if o.err = err; err == nil {
		o.answers = append(o.answers, a)
	}
}

func (o *op) start(ctx context.Context) (answered chan struct{}) {
	answered = make(chan struct{})
	go o.run(ctx, answered)
	return answered
}

// again asks once more for the answer of an order that has one.
func (o *op) again(ctx context.Context) {
	if o.err == nil {
		o.run(ctx, make(chan struct{}))
	}
}

// atOnce runs all at the same time, at most n of them.
func atOnce[T any](n int, all []T, f func(T)) {
	slots := make(chan struct{}, n)
	var done sync.WaitGroup
	for _, one := range all {
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			f(one)
		})
	}
	done.Wait()
}

// within reports whether something happens in time.
func within(d time.Duration, happened <-chan struct{}) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-happened:
		return true
	case <-late.C:
		return false
	}
}

// text is a log that several processes write.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string { return t.end(1 << 30) }

// end returns the last n bytes.
func (t *text) end(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b.Bytes()[max(0, t.b.Len()-n):])
}
