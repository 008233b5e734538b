package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	_ "github.com/retrysafe/retrysafe/stores/sqlitestore" // the driver
)

// The servers of all tests: PostgreSQL and MariaDB. They do not sync, because no test cuts the power.
var (
	shared = servers.SharedPostgres{Options: servers.PostgresOptions{Settings: map[string]string{
		"fsync": "off", "full_page_writes": "off", "max_wal_size": "2GB",
	}}}
	sharedMariaDB = servers.SharedMariaDB{Options: servers.MariaDBOptions{Settings: map[string]string{
		"innodb-flush-log-at-trx-commit": "0",
	}}}
)

// database describes an outbox's database, for another process.
type database struct {
	dialect outbox.Dialect
	url     string
}

func (d database) open() (*sql.DB, error) {
	drivers := map[outbox.Dialect]string{outbox.PostgreSQL: "pgx", outbox.SQLite: "sqlite", outbox.MySQL: "mysql"}
	return sql.Open(drivers[d.dialect], d.url)
}

// kit is an outbox with its own database.
type kit struct {
	*testing.T
	database
	db  *sql.DB
	box *outbox.Outbox
}

// everywhere runs a test on every database.
func everywhere(t *testing.T, test func(*kit)) {
	t.Helper()
	on(t, []outbox.Dialect{outbox.PostgreSQL, outbox.SQLite, outbox.MySQL}, test)
}

// onServers runs a test on the databases that lock rows.
func onServers(t *testing.T, test func(*kit)) {
	t.Helper()
	on(t, []outbox.Dialect{outbox.PostgreSQL, outbox.MySQL}, test)
}

func on(t *testing.T, dialects []outbox.Dialect, test func(*kit)) {
	t.Helper()
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(newKit(t, d))
		})
	}
}

func newKit(t *testing.T, d outbox.Dialect) *kit {
	t.Helper()
	k := &kit{T: t, database: database{d, ""}}
	switch d {
	case outbox.PostgreSQL:
		k.url = shared.Get(t).Database(t)
	case outbox.MySQL:
		k.url = sharedMariaDB.Get(t).Database(t) + "?"
	default:
		k.url = "file:" + filepath.Join(t.TempDir(), "shop.db") +
			"?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_txlock=immediate"
	}
	k.connect()
	k.box = k.newBox(outbox.Options{})
	return k
}

// strict makes transactions serializable by default, if the database has other levels.
func (k *kit) strict() {
	k.Helper()
	k.reconnect("&default_transaction_isolation=serializable", "&tx_isolation=%27SERIALIZABLE%27")
}

// reconnect connects again with more parameters, which are for PostgreSQL or for MariaDB.
func (k *kit) reconnect(postgres, mariadb string) {
	k.Helper()
	switch k.dialect {
	case outbox.PostgreSQL:
		k.url += postgres
	case outbox.MySQL:
		k.url += mariadb
	default:
		return
	}
	k.connect()
	var err error
	if k.box, err = outbox.New(k.db, k.dialect, outbox.Options{}); err != nil {
		k.Fatal(err)
	}
}

// connect opens the database until the test ends.
func (k *kit) connect() {
	k.Helper()
	var err error
	if k.db, err = k.open(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { k.db.Close() })
}

func (k *kit) newBox(o outbox.Options) *outbox.Outbox {
	k.Helper()
	box, err := outbox.New(k.db, k.dialect, o)
	if err != nil {
		k.Fatal(err)
	}
	if _, err := box.Migrate(k.Context()); err != nil {
		k.Fatal(err)
	}
	return box
}

func (k *kit) exec(text string, args ...any) {
	k.Helper()
	if _, err := k.db.Exec(text, args...); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) count(query string) (n int) {
	k.Helper()
	if err := k.db.QueryRow(query).Scan(&n); err != nil {
		k.Fatal(err)
	}
	return n
}

// inTx runs f in a transaction, and commits it unless f fails.
func inTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// save saves messages, all in one transaction.
func (k *kit) save(all ...outbox.Message) {
	k.Helper()
	if err := k.trySave(k.Context(), all...); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) trySave(ctx context.Context, all ...outbox.Message) error {
	return inTx(ctx, k.db, func(tx *sql.Tx) error {
		for _, m := range all {
			if err := outbox.Save(ctx, k.box, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// age lets time pass by moving everything that is stored into the past.
func (k *kit) age(d time.Duration) {
	k.Helper()
	k.exec(fmt.Sprintf("UPDATE outbox SET saved_at = saved_at - %d, due_at = due_at - %[1]d", d.Microseconds()))
}

func (k *kit) stats() outbox.Stats {
	k.Helper()
	s, err := k.box.Stats(k.Context())
	if err != nil {
		k.Fatal(err)
	}
	return s
}

func (k *kit) dead() []outbox.Letter {
	k.Helper()
	letters, err := k.box.Dead(k.Context(), 0, 1000)
	if err != nil {
		k.Fatal(err)
	}
	return letters
}

// recorder is a sink that keeps all messages and returns the configured answer.
type recorder struct {
	mu     sync.Mutex
	all    []outbox.Delivery
	answer func(d outbox.Delivery) error // nil: every message is sent
}

func (s *recorder) Send(_ context.Context, batch []outbox.Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]error, len(batch))
	for i, d := range batch {
		s.all = append(s.all, d)
		if s.answer != nil {
			answers[i] = s.answer(d)
		}
	}
	return answers
}

// bodies returns the bodies of all deliveries, in their order.
func (s *recorder) bodies() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.all {
		all = append(all, string(d.Body))
	}
	return all
}

// events is an observer that keeps all events.
type events struct {
	mu  sync.Mutex
	all []outbox.Event
	saw chan outbox.EventKind
}

func newEvents() *events { return &events{saw: make(chan outbox.EventKind, 100_000)} }

func (e *events) Observe(_ context.Context, event outbox.Event) {
	e.mu.Lock()
	e.all = append(e.all, event)
	e.mu.Unlock()
	e.saw <- event.Kind
}

func (e *events) of(kind outbox.EventKind) (found []outbox.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Kind == kind {
			found = append(found, event)
		}
	}
	return found
}

// await waits until n more events of a kind have occurred.
func (e *events) await(t testing.TB, kind outbox.EventKind, n int) {
	t.Helper()
	patience := time.After(time.Minute)
	for n > 0 {
		select {
		case k := <-e.saw:
			if k == kind {
				n--
			}
		case <-patience:
			t.Fatalf("%d events %s are missing", n, kind)
		}
	}
}

// relay starts a relay, which ends with stop or with the test.
func (k *kit) relay(sink outbox.Sink, o outbox.RelayOptions) (told *events, stop func()) {
	told = newEvents()
	o.Observer = told
	if o.Idle == 0 {
		o.Idle = 10 * time.Millisecond
	}
	r := outbox.NewRelay(k.box, sink, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	k.Cleanup(stop)
	return told, stop
}

func wantEqual[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// until polls until a condition holds.
func (k *kit) until(holds func() bool) {
	k.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	patience := time.After(time.Minute)
	for !holds() {
		select {
		case <-ticker.C:
		case <-patience:
			k.Fatal("this never happens")
		}
	}
}

// openPool connects to a PostgreSQL database until the test ends.
func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// together calls do for each number below n, in several goroutines.
func together(goroutines, n int, do func(int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make([]error, goroutines)
	for g := range goroutines {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failures[g] == nil; i = next.Add(1) - 1 {
				failures[g] = do(int(i))
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}
