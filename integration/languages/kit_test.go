//go:build unix

package languages

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// shared is the server of all programs, each of which has a database of its own.
var shared servers.SharedPostgres

// binary returns the path of the command.
var binary = sync.OnceValues(servers.Retrysafe)

// program is the program of a page.
type program struct {
	page string // the name of the page, and of the program's folder
	file string // in that folder
	// command returns the command that runs the program. The port is its last argument, and in the variable PORT.
	command func(t *testing.T, file string) []string
}

// source returns the path of the program's file. With single, the part of it that the page's file statement.* replaces is
// that file: the work and its completion are one statement.
func (p program) source(t *testing.T, single bool) string {
	t.Helper()
	folder, err := filepath.Abs(p.page)
	if err != nil {
		t.Fatal(err)
	}
	if single {
		own := filepath.Join(t.TempDir(), p.page)
		if err := os.CopyFS(own, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		folder = own
		text := spliced(t, read(t, filepath.Join(folder, p.file)), read(t, filepath.Join(folder, "statement"+filepath.Ext(p.file))))
		if err := os.WriteFile(filepath.Join(folder, p.file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, p.file)
}

// spliced replaces the part of a program that begins with the first line of another one, and ends with its last line.
func spliced(t *testing.T, program, part string) string {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSuffix(part, "\n"), "\n")
	before, rest, begins := strings.Cut(program, "\n"+lines[0])
	_, after, ends := strings.Cut(rest, "\n"+lines[len(lines)-1]+"\n")
	if !begins || !ends {
		t.Fatalf("the program does not have the first and the last line of\n%s", part)
	}
	return before + "\n" + part + after
}

// shop is the database of a program, with the places of crashpoints.sql, and the program behind the proxy.
type shop struct {
	*testing.T
	pg       *servers.Postgres
	database string   // its URL, for the superuser
	app      string   // for the program's role, which has no right to the tables of the keys
	proxied  string   // for the proxy's role
	network  *network // between the program and the database
	single   bool     // the program's work and its completion are one statement
	service  *servers.Service
	proxy    *servers.Service
}

// newDatabase makes a database as docs/exactly-once.md says.
func newDatabase(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, pg: shared.Get(t), network: &network{}}
	s.database = s.pg.Database(t)
	s.app, s.proxied = s.role("app"), s.role("proxy")
	app := user(t, s.app)
	retrysafe, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	migrate := exec.CommandContext(t.Context(), retrysafe, "migrate", "up", "--store", s.database,
		"--role", user(t, s.proxied), "--service-role", app)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate up: %v\n%s", err, out)
	}
	s.sql(read(t, "charges.sql") + "GRANT SELECT, INSERT ON charges TO " + app + ";" + read(t, "crashpoints.sql"))
	return s
}

// newShop starts the program and the proxy.
func newShop(t *testing.T, p program, single bool) *shop {
	t.Helper()
	command := p.command(t, p.source(t, single)) // installs what is missing, before the servers start
	s := newDatabase(t)
	s.single = single
	database := s.network.through(s, s.app)
	s.service = servers.StartService(t, p.page, func(port string) []string {
		return append(append([]string{"DATABASE_URL=" + database, "PORT=" + port}, command...), port)
	})
	retrysafe, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "proxy.yaml")
	text := fmt.Sprintf("upstream: %s\nstore: %s\nscope: none\nroutes:\n  POST /charges:\n    complete: upstream\n", s.service.URL(), s.proxied)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.proxy = servers.StartService(t, "retrysafe", func(port string) []string {
		return []string{retrysafe, "proxy", "--config=" + config, "--listen=127.0.0.1:" + port}
	})
	return s
}

// role makes a role that can log in, and returns the URL with which it does.
func (s *shop) role(name string) string {
	s.Helper()
	name += "_" + strings.ToLower(rand.Text())
	s.sql("CREATE ROLE " + name + " LOGIN")
	s.Cleanup(func() { s.sql("DROP OWNED BY " + name + "; DROP ROLE " + name) })
	u, err := url.Parse(s.database)
	if err != nil {
		s.Fatal(err)
	}
	u.User = url.User(name)
	return u.String()
}

func user(t *testing.T, of string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sql runs statements as the superuser, and returns the rows.
func (s *shop) sql(text string) string {
	s.Helper()
	return s.pg.PsqlAt(s, s.database, text)
}

// wantCharges compares the amounts that a customer was charged.
func (s *shop) wantCharges(customer, want string) {
	s.Helper()
	if got := s.sql("SELECT string_agg(amount::text, ', ') FROM charges WHERE customer = '" + customer + "'"); got != want {
		s.Errorf("%s was charged %q, want %q", customer, got, want)
	}
}

// claim claims a key as the proxy does, and returns the lease.
func (s *shop) claim(id, arguments string) string {
	s.Helper()
	return s.sql("SELECT lease FROM retrysafe.claim('test', '" + id + "'" + arguments + ")")
}

// A place of crashpoints.sql.
const (
	afterInsert = 1
	atCommit    = 2
)

// hold holds the program at a place, until the function that it returns is called.
func (s *shop) hold(place int) (release func()) {
	s.Helper()
	conn, err := pgx.Connect(context.Background(), s.database)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := conn.Exec(context.Background(), "SELECT pg_advisory_lock($1)", place); err != nil {
		s.Fatal(err)
	}
	release = sync.OnceFunc(func() { conn.Close(context.Background()) })
	s.Cleanup(release)
	return release
}

// held waits until the program waits at a place, or has ended its request without.
func (s *shop) held(place int, ended <-chan answer) {
	s.Helper()
	waits := fmt.Sprintf(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = %d
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, place)
	tick, late := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for s.sql(waits) == "0" {
		select {
		case a := <-ended:
			s.Fatalf("it answered %d %s instead of waiting at place %d", a.status, a.body, place)
		case <-late:
			s.Fatalf("it does not reach place %d", place)
		case <-tick.C:
		}
	}
}

// answer is what a client gets.
type answer struct {
	status int
	body   string
	header http.Header
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s %q", a.status, a.header.Get("Content-Type"), a.body)
}

// send sends an order with a header, and returns the answer. The status is 0 if the connection breaks.
func (s *shop) send(to *servers.Service, customer string, amount int, header ...string) answer {
	s.Helper()
	order := fmt.Sprintf(`{"customer": %q, "amount": %d}`, customer, amount)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to.URL()+"/charges", strings.NewReader(order))
	if err != nil {
		s.Error(err)
		return answer{}
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Close = true // servers close idle connections after seconds, and a request that comes then is not sent again
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{response.StatusCode, string(body), response.Header}
}

// start sends an order from another goroutine.
func (s *shop) start(to *servers.Service, customer string, amount int, header ...string) <-chan answer {
	got := make(chan answer, 1)
	go func() { got <- s.send(to, customer, amount, header...) }()
	return got
}

// order sends an order with the customer's name as its key, like a client that repeats it while it is told to.
func (s *shop) order(customer string, amount int) answer {
	s.Helper()
	tick, late := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		a := s.send(s.proxy, customer, amount, "Idempotency-Key", `"`+customer+`"`)
		if a.status != http.StatusConflict && a.status != http.StatusServiceUnavailable {
			return a
		}
		select {
		case <-late:
			s.Fatalf("%s: still %v", customer, a)
		case <-tick.C:
		}
	}
}
