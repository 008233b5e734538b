package inbox

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
	_ "github.com/retrysafe/retrysafe/stores/sqlitestore" // the driver
)

var (
	shared        servers.SharedPostgres
	sharedMariaDB servers.SharedMariaDB
)

const topic = "POST /hooks"

// kit is an inbox with its own database, and the service behind it. Requests are accepted by ServeHTTP.
type kit struct {
	*testing.T
	db      *sql.DB
	box     *outbox.Outbox
	options inbox.Options
	http    httpsafe.Options
	policy  retrysafe.Policy
	store   retrysafe.Store // nil: in memory
	guard   *retrysafe.Guard
	handler http.HandlerFunc // of the service
	once    sync.Once
	in      *inbox.Inbox
	guarded http.Handler

	mu   sync.Mutex
	runs []string // bodies that the service has seen
}

// everywhere runs a test on every database.
func everywhere(t *testing.T, test func(*kit)) {
	t.Helper()
	t.Parallel()
	for _, d := range []outbox.Dialect{outbox.PostgreSQL, outbox.SQLite, outbox.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(newKit(t, d))
		})
	}
}

func newKit(t *testing.T, d outbox.Dialect) *kit {
	t.Helper()
	driver, url := "sqlite", ""
	switch d {
	case outbox.PostgreSQL:
		driver, url = "pgx", shared.Get(t).Database(t)
	case outbox.MySQL:
		driver, url = "mysql", sharedMariaDB.Get(t).Database(t)
	default:
		url = fileURL(t.TempDir())
	}
	return newKitAt(t, d, driver, url)
}

func fileURL(folder string) string {
	return "file:" + filepath.Join(folder, "inbox.db") + "?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_txlock=immediate"
}

// newKitAt is newKit with a database that is there.
func newKitAt(t *testing.T, d outbox.Dialect, driver, url string) *kit {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	box, err := outbox.New(db, d, outbox.Options{Table: "inbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := &kit{T: t, db: db, box: box, options: inbox.Options{
		Idle: 20 * time.Millisecond, FirstDelay: time.Millisecond, MaxDelay: time.Millisecond,
	}}
	k.http = httpsafe.Options{KeySource: httpsafe.NaturalKey{Fields: []string{"/id"}}, StatusPath: "/status"}
	k.handler = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "done")
	}
	return k
}

func scope(r *http.Request) (string, error) { return cmp.Or(r.Header.Get("Caller"), "sender"), nil }

// build builds the inbox when it is first used, after the test has chosen its options.
func (k *kit) build() {
	k.once.Do(func() {
		if k.store == nil {
			k.store = memstore.New(memstore.Options{})
		}
		k.guard = retrysafe.New(k.store, retrysafe.Options{Policy: k.policy, SweepEvery: -1})
		k.in = inbox.New(k.box, topic, k.options)
		k.http.Inbox = k.in
		k.guarded = httpsafe.Middleware(k.guard, scope, k.http)(k.service())
	})
}

// service notes what it has seen, and calls the handler.
func (k *kit) service() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		k.mu.Lock()
		k.runs = append(k.runs, string(body))
		k.mu.Unlock()
		k.handler(w, r)
	})
}

// answer is what a client gets.
type answer struct {
	*httptest.ResponseRecorder
	k *kit
}

// post sends a request with a body, and headers as "Name: value".
func (k *kit) post(body string, headers ...string) answer {
	k.build()
	r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	k.guarded.ServeHTTP(w, r)
	return answer{w, k}
}

func (a answer) want(status int) answer {
	a.k.Helper()
	if a.Code != status {
		a.k.Fatalf("status %d, want %d: %s", a.Code, status, a.Body)
	}
	return a
}

func (a answer) wantCode(status int, code string) {
	a.k.Helper()
	var problem struct{ Code string }
	_ = json.Unmarshal(a.want(status).Body.Bytes(), &problem)
	if problem.Code != code {
		a.k.Errorf("code %q, want %q", problem.Code, code)
	}
}

// status asks for the state of an accepted request.
func (k *kit) status(accepted answer, caller string) (state string) {
	k.Helper()
	r := httptest.NewRequest(http.MethodGet, accepted.Header().Get("Location"), nil)
	r.Header.Set("Caller", caller)
	w := httptest.NewRecorder()
	httpsafe.StatusHandler(k.guard, scope, k.http).ServeHTTP(w, r)
	var said struct{ State string }
	_ = json.Unmarshal(w.Body.Bytes(), &said)
	return said.State
}

// run delivers until the test ends, or until stop is called.
func (k *kit) run() (stop func()) {
	k.build()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = k.in.Run(ctx, k.guarded)
	}()
	stop = func() {
		cancel()
		<-done
	}
	k.Cleanup(stop)
	return stop
}

// until polls until a condition holds.
func (k *kit) until(what string, holds func() bool) {
	k.Helper()
	for late := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			k.Fatalf("it never happened that %s", what)
		}
	}
}

// settled waits until so many requests were delivered and so many are dead.
func (k *kit) settled(sent, dead int) {
	k.Helper()
	k.until("all requests were settled", func() bool {
		return k.count(outbox.Sent) >= sent && k.count(outbox.Dead) >= dead && k.count(outbox.Pending) == 0
	})
	if s, d := k.count(outbox.Sent), k.count(outbox.Dead); s != sent || d != dead {
		k.Fatalf("%d were delivered and %d are dead, want %d and %d", s, d, sent, dead)
	}
}

func (k *kit) count(s outbox.State) int {
	k.Helper()
	all, err := k.box.List(k.Context(), s, "", 0, 10_000)
	if err != nil {
		k.Fatal(err)
	}
	return len(all)
}

func (k *kit) seen() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string{}, k.runs...)
}
