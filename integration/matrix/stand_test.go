//go:build linux

package matrix

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/dynamostore"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/natsstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// stand is a store's server, the networks before it, and the workers.
type stand struct {
	*testing.T
	place  place
	single bool          // only one process may use the store at a time
	extra  time.Duration // by which a lease of this store is longer
	server server        // nil: none
	down   bool
	paused bool
	isFull bool
	first  *relay // of the first worker
	others *relay
	rows   func(key string) ([]string, error) // of the transactions of a key; nil: none

	// What can be done to the server; nil: not to this one.
	full, space func()
	failover    func()
	clock       func(offset time.Duration)
	isolate     func(oneWay bool) // cuts the first worker's server off from the others
	join        func()
	age         func() // ends the leases of deliveries

	mu      sync.Mutex
	events  map[string][]event // by key
	workers map[string]*process
}

// server is what the harness does to any server.
type server interface {
	Kill(t testing.TB)
	Start(t testing.TB)
	Pause(t testing.TB)
	Resume(t testing.TB)
	PID() int
}

// newStand starts what a store needs.
func newStand(t *testing.T, store, variant, fault string) *stand {
	t.Helper()
	s := &stand{T: t, events: map[string][]event{}, workers: map[string]*process{}}
	s.place = place{Store: store, Ledgers: t.TempDir(), Planted: fault}
	var env []string
	if variant == withClock {
		env = s.fakeClock()
	}
	switch store {
	case memory:
		s.single = true
	case sqlite:
		s.single = true
		s.place.URL = filepath.Join(s.place.Ledgers, "keys.db")
		s.prepareSQLite()
	case postgres, sqlFunctions:
		s.startPostgres(env, variant)
	case mysql:
		s.startMySQL(env)
	case redis:
		s.startRedis(env, variant)
	case natsKV:
		s.startNATS(variant)
	case dynamo:
		s.startDynamo(env)
	}
	return s
}

// through sets the networks to the server at an address, and the URL of the place.
func (s *stand) through(address func() string) {
	dial := func() (net.Conn, error) { return net.DialTimeout("tcp", address(), time.Second) }
	s.first, s.others = newRelay(s.T, dial), newRelay(s.T, dial)
}

// at is the place of a worker: its URL goes through the relay.
func (s *stand) at(r *relay) place {
	p := s.place
	if r != nil {
		p.URL = strings.ReplaceAll(p.URL, "ADDRESS", r.address())
		p.Inbox = strings.ReplaceAll(p.Inbox, "ADDRESS", r.address())
	}
	return p
}

// fakeClock returns an environment in which the server reads its clock's offset from a file.
func (s *stand) fakeClock() []string {
	s.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-clock-") // the server's account may read it
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	path := filepath.Join(dir, "offset")
	s.clock = func(offset time.Duration) {
		if err := os.WriteFile(path, fmt.Appendf(nil, "%+f\n", offset.Seconds()), 0o644); err != nil {
			s.Error(err)
		}
	}
	s.clock(0)
	var env []string
	for _, e := range servers.FakeTime(s.T, 0) {
		if !strings.HasPrefix(e, "FAKETIME=") {
			env = append(env, e)
		}
	}
	return append(env, "FAKETIME_TIMESTAMP_FILE="+path, "FAKETIME_NO_CACHE=1")
}

func (s *stand) prepareSQLite() {
	s.Helper()
	store, err := sqlitestore.Open(s.place.URL, sqlitestore.Options{})
	if err != nil {
		s.Fatal(err)
	}
	if err := store.Close(); err != nil {
		s.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+s.place.URL+"?_pragma=busy_timeout(10000)")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { db.Close() })
	s.useRows(db, true)
	file := "file:" + filepath.Join(s.place.Ledgers, "inbox.db") +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate"
	s.useInbox(outbox.SQLite, file, file)
	s.full = func() { s.worker("a").order(order{Do: "full"}) }
	s.space = func() { s.worker("a").order(order{Do: "space"}) }
}

// useRows makes the table of the work's own rows.
func (s *stand) useRows(db *sql.DB, question bool) {
	s.Helper()
	query := readRows
	if question {
		query = inMySQL(query)
	}
	if _, err := db.Exec(createRows); err != nil {
		s.Fatal(err)
	}
	s.rows = func(key string) (all []string, err error) {
		rows, err := db.Query(query, key)
		for err == nil && rows.Next() {
			var run string
			err = rows.Scan(&run)
			all = append(all, run)
		}
		if err == nil {
			err = rows.Err()
		}
		return all, err
	}
}

// useInbox makes the table of an inbox in a database.
func (s *stand) useInbox(d outbox.Dialect, url, through string) {
	s.Helper()
	s.place.Inbox = string(d) + " " + through
	box, db, err := openInbox(string(d) + " " + url)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { db.Close() })
	if _, err := box.Migrate(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.age = func() {
		s.try(func() error {
			_, err := db.Exec("UPDATE " + inboxTable + " SET due_at = due_at - 30000000 WHERE state = 1 AND owner <> ''")
			return err
		})
	}
}

func (s *stand) startPostgres(env []string, variant string) {
	s.Helper()
	pg := servers.StartPostgres(s.T, servers.PostgresOptions{Env: env})
	s.server = pg
	base := pg.URL("postgres")
	address := hostOf(s.T, base)
	real := address
	s.through(func() string { return address })
	s.place.URL = strings.Replace(base, address, "ADDRESS", 1) + "&pool_max_conns=6&connect_timeout=2"
	if s.place.Store == sqlFunctions {
		s.place.URL = strings.Replace(s.place.URL, "&pool_max_conns=6", "", 1)
	}
	pool, err := pgxpool.New(s.Context(), base)
	if err != nil {
		s.Fatal(err)
	}
	if _, err = pgstore.Migrate(s.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		s.Fatal(err)
	}
	pool.Close()
	connect := func(to string) {
		db, err := sql.Open("pgx", strings.Replace(base, real, to, 1))
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { db.Close() })
		s.useRows(db, false)
	}
	connect(address)
	if s.place.Store == postgres {
		s.useInbox(outbox.PostgreSQL, base, strings.Replace(base, address, "ADDRESS", 1)+"&connect_timeout=2")
	}
	if variant == withHA {
		standby := pg.StartStandby(s.T, true)
		s.failover = func() {
			if !s.down {
				pg.Kill(s.T)
			}
			standby.Promote(s.T)
			address = hostOf(s.T, standby.URL("postgres"))
			s.server, s.down = standby, false
			s.first.drop()
			s.others.drop()
			connect(address)
		}
	}
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (s *stand) startMySQL(env []string) {
	s.Helper()
	m := servers.StartMariaDB(s.T, servers.MariaDBOptions{Env: env, Settings: map[string]string{
		"innodb-file-per-table": "OFF", "innodb-data-file-path": "ibdata1:12M:autoextend:max:64M",
	}})
	s.server = m
	dsn := m.Database(s.T)
	_, rest, _ := strings.Cut(dsn, "@tcp(")
	address, _, _ := strings.Cut(rest, ")")
	s.through(func() string { return address })
	s.place.URL = strings.Replace(dsn, address, "ADDRESS", 1)
	if strings.Contains(s.place.URL, "?") {
		s.place.URL += "&timeout=2s"
	} else {
		s.place.URL += "?timeout=2s"
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { db.Close() })
	if _, err := mysqlstore.Migrate(s.Context(), db, mysqlstore.MigrateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.useRows(db, true)
	s.useInbox(outbox.MySQL, dsn, s.place.URL)
	s.full = func() {
		_, err := db.Exec("CREATE TABLE filler (b varbinary(8000)) ENGINE = InnoDB")
		for _, n := range []int{8000, 500} {
			for err == nil {
				_, err = db.Exec("INSERT INTO filler SELECT REPEAT('x', ?) FROM (SELECT 1 UNION SELECT 2 UNION SELECT 3 "+
					"UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8) a", n)
			}
			if !strings.Contains(err.Error(), "full") {
				s.Errorf("fill the server: %v", err)
				return
			}
			err = nil
		}
	}
	s.space = func() { s.try(func() error { _, err := db.Exec("DROP TABLE IF EXISTS filler"); return err }) }
}

// try repeats a call on a server that was just started.
func (s *stand) try(call func() error) {
	var err error
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		if err = call(); err == nil {
			return
		}
	}
	s.Error(err)
}

func (s *stand) startRedis(env []string, variant string) {
	s.Helper()
	if variant == withHA {
		group := servers.StartRedisSentinel(s.T, servers.RedisSentinelOptions{})
		master := group.Master(s.T)
		s.server = master
		s.place.Wait = 2
		address := master.Address()
		s.through(func() string { return address })
		s.place.URL = "ADDRESS"
		s.failover = func() {
			if !s.down {
				master.Kill(s.T)
			}
			now := group.Failover(s.T)
			// One replica is left. The old master comes back as the second.
			group.Repair(s.T)
			address = now.Address()
			s.server, s.down = now, false
			s.first.drop()
			s.others.drop()
		}
		return
	}
	r := servers.StartRedis(s.T, servers.RedisOptions{})
	if env != nil {
		s.Fatal("redis has no clock here")
	}
	s.server = r
	s.through(r.Address)
	s.place.URL = "ADDRESS"
	s.full = func() { r.Command(s.T, "CONFIG", "SET", "maxmemory", "1") }
	s.space = func() { r.Command(s.T, "CONFIG", "SET", "maxmemory", "0") }
}

func (s *stand) startNATS(variant string) {
	s.Helper()
	if variant == withHA {
		s.startCluster()
		return
	}
	n := servers.StartNATS(s.T, servers.NATSOptions{})
	s.server = n
	address := strings.TrimPrefix(n.URL(), "nats://")
	s.through(func() string { return address })
	s.place.URL = "nats://ADDRESS"
	js := s.createBucket(n.URL(), 1)
	limit := func(bytes int64) {
		s.try(func() error {
			name := "RETRYSAFE_" + bucket
			streams := js.StreamNames(s.Context())
			for found := range streams.Name() {
				name = found
			}
			stream, err := js.Stream(s.Context(), name)
			if err != nil {
				return err
			}
			c := stream.CachedInfo().Config
			c.MaxBytes = bytes
			if bytes > 0 {
				c.MaxBytes = int64(stream.CachedInfo().State.Bytes) + 1
			}
			_, err = js.UpdateStream(s.Context(), c)
			return err
		})
	}
	s.full = func() { limit(1) }
	s.space = func() { limit(-1) }
}

func (s *stand) createBucket(url string, replicas int, o ...nats.Option) jetstream.JetStream {
	s.Helper()
	o = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}, o...)
	conn, err := nats.Connect(url, o...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		s.Fatal(err)
	}
	options := natsstore.BucketOptions{Bucket: bucket, Replicas: replicas}
	// The leader of a new cluster may not know yet what the others have room for.
	s.try(func() error { return natsstore.CreateBucket(s.Context(), js, options) })
	return js
}

// startCluster starts three servers, each in a network of its own. The first worker is beside the one that leads the
// bucket's stream, the others are beside another one.
func (s *stand) startCluster() {
	s.Helper()
	c := servers.StartNATSCluster(s.T, servers.NATSOptions{})
	s.extra = time.Second // the tolerance of clocks
	js := s.createBucket(c.Nodes[0].URL(), 3, nats.SetCustomDialer(c.Nodes[0].Host))
	leader := -1
	s.try(func() error {
		streams := js.ListStreams(s.Context())
		for info := range streams.Info() {
			for i := range c.Nodes {
				if info.Cluster != nil && info.Cluster.Leader == fmt.Sprintf("nats-%d", i+1) {
					leader = i
				}
			}
		}
		if leader < 0 {
			return fmt.Errorf("the stream has no leader: %w", streams.Err())
		}
		return nil
	})
	dial := func(n *servers.NATSNode) func() (net.Conn, error) {
		return func() (net.Conn, error) { return n.Dial("tcp", strings.TrimPrefix(n.URL(), "nats://")) }
	}
	node := c.Nodes[leader]
	s.first, s.others = newRelay(s.T, dial(node)), newRelay(s.T, dial(c.Nodes[(leader+1)%3]))
	s.place.URL = "nats://ADDRESS"
	s.server = node
	s.isolate = func(oneWay bool) {
		if oneWay {
			node.Mute(s.T)
		} else {
			node.Cut(s.T)
		}
	}
	s.join = func() {
		node.Unmute(s.T)
		node.Reconnect(s.T)
	}
	s.failover = func() { // the others elect a leader by themselves
		if !s.down {
			node.Kill(s.T)
		}
		s.down = true
	}
}

func (s *stand) startDynamo(env []string) {
	s.Helper()
	d := servers.StartDynalite(s.T, servers.DynaliteOptions{})
	if env != nil {
		s.Fatal("dynalite has no clock here")
	}
	s.server = d
	s.extra = dynamostore.DefaultMaxSkew
	address := strings.TrimPrefix(d.URL(), "http://")
	s.through(func() string { return address })
	s.place.URL = "http://ADDRESS"
	if err := dynamostore.CreateTable(s.Context(), dynamoClient(d.URL()),
		dynamostore.CreateTableOptions{Table: table, WithoutTimeToLive: true}); err != nil {
		s.Fatal(err)
	}
}

// process is a worker.
type process struct {
	stand   *stand
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	dead    chan struct{}
	stopped bool
}

// workerEnv holds a worker's place, as JSON.
const workerEnv = "RETRYSAFE_MATRIX_WORKER"

// worker returns the worker of a name, and starts it if it does not run. The first one, "a", has a network of its own.
// Where only one process may use the store, there is no other.
func (s *stand) worker(name string) *process {
	s.Helper()
	if s.single {
		name = "a"
	}
	if p := s.workers[name]; p != nil && !p.hasEnded() {
		return p
	}
	relay := s.others
	if name == "a" {
		relay = s.first
	}
	text, err := json.Marshal(s.at(relay))
	if err != nil {
		s.Fatal(err)
	}
	p := &process{stand: s, name: name, cmd: exec.Command(os.Args[0]), dead: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		s.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(p.dead)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				s.Errorf("a worker wrote %q: %v", line, err)
				continue
			}
			s.mu.Lock()
			s.events[e.Key] = append(s.events[e.Key], e)
			s.mu.Unlock()
		}
		_ = p.cmd.Wait()
	}()
	s.workers[name] = p
	s.Cleanup(func() { p.kill() })
	return p
}

func (p *process) hasEnded() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *process) order(o order) {
	text, err := json.Marshal(o)
	if err == nil {
		_, err = p.in.Write(append(text, '\n'))
	}
	if err != nil && !p.hasEnded() {
		p.stand.Errorf("tell worker %s: %v", p.name, err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.dead
}

func (p *process) signal(signal syscall.Signal) {
	p.stopped = signal == syscall.SIGSTOP
	if err := p.cmd.Process.Signal(signal); err != nil && !p.hasEnded() {
		p.stand.Errorf("worker %s: %v", p.name, err)
	}
}

// stop stops the process, and returns once it does nothing more.
func (p *process) stop() {
	p.signal(syscall.SIGSTOP)
	stat := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)
	p.stand.try(func() error {
		text, err := os.ReadFile(stat)
		_, state, _ := strings.Cut(string(text), ") ")
		if err == nil && !strings.HasPrefix(state, "T") && !p.hasEnded() {
			err = fmt.Errorf("worker %s is not stopped: %s", p.name, text)
		}
		return err
	})
}

// of returns what was told about a key.
func (s *stand) of(key string) []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]event{}, s.events[key]...)
}

// repair undoes all that the faults of a cell have done.
func (s *stand) repair() {
	for _, p := range s.workers {
		if p.stopped {
			p.signal(syscall.SIGCONT)
		}
	}
	if s.join != nil {
		s.join()
	}
	if s.server != nil {
		switch {
		case s.down:
			s.server.Start(s.T)
		case s.paused:
			s.server.Resume(s.T)
		}
		s.down, s.paused = false, false
	}
	if s.isFull {
		s.space()
		s.isFull = false
	}
	if s.clock != nil {
		s.clock(0)
	}
	if s.first != nil {
		s.first.heal()
		s.others.heal()
	}
}

// disturb does something to the server or to the network, for up to a second, and undoes it.
func (s *stand) disturb(dice *rand.Rand) {
	moment := func() { time.Sleep(time.Duration(dice.Int64N(int64(time.Second)))) }
	switch dice.IntN(4) {
	case 0:
		s.server.Kill(s.T)
		s.server.Start(s.T)
	case 1:
		s.server.Pause(s.T)
		moment()
		s.server.Resume(s.T)
	case 2:
		s.others.lose([]string{"up", "down", "both"}[dice.IntN(3)])
		moment()
		s.others.heal()
	case 3:
		s.others.lose([]string{"up", "down", "both"}[dice.IntN(3)])
		moment()
		s.others.drop()
	}
}

// lapse is longer than a lease lasts.
func (s *stand) lapse(dice *rand.Rand) time.Duration {
	return lease + s.extra + lease/4 + time.Duration(dice.Int64N(int64(lease/2)))
}
