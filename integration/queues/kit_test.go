package queues

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// broker is one kind of broker, as used by the tests.
type broker interface {
	// start starts a server for the test and returns its URL and version.
	start(t testing.TB) (url, version string)
	// open creates the queue.
	open(t testing.TB, url, queue string) queue
	// consume runs a consumer process until ctx ends.
	consume(ctx context.Context, url, queue string, c *queuesafe.Consumer, h queuesafe.Handler) error
}

// queue is a queue of a broker.
type queue interface {
	// publish publishes messages whose key and body are the ID. IDs of an earlier call are published as copies.
	publish(t testing.TB, ids []string)
	// left returns the number of messages in the broker, including delayed ones, and the number of dead letters.
	left(t testing.TB) (waiting, dead int)
}

// brokers returns all kinds of brokers. The tests run with each.
func brokers() map[string]broker {
	return map[string]broker{"RabbitMQ": rabbitMQ{}, "NATS": natsJetStream{}, "Kafka": kafka{}, "SQS": amazonSQS{}}
}

// shared is the PostgreSQL of all tests.
var shared servers.SharedPostgres

// kit is a broker with a queue, and a database with a store and the rows that handlers write.
type kit struct {
	testing.TB
	name, url, version string
	queueName          string
	queue              queue
	database           string
	pool               *pgxpool.Pool

	mu   sync.Mutex
	seen map[string]int // lines that consumer processes have printed, by their first word
	logs []string
}

func newKit(t testing.TB, name string) *kit {
	t.Helper()
	k := &kit{TB: t, name: name, queueName: "orders", seen: map[string]int{}}
	k.database = shared.Get(t).Database(t)
	pool, err := pgxpool.New(t.Context(), k.database)
	if err != nil {
		t.Fatal(err)
	}
	k.pool = pool
	t.Cleanup(pool.Close)
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "CREATE TABLE effects (id text, process text)"); err != nil {
		t.Fatal(err)
	}
	k.url, k.version = brokers()[name].start(t)
	k.queue = brokers()[name].open(t, k.url, k.queueName)
	return k
}

// effects counts the rows and the messages that have rows.
func (k *kit) effects() (rows, messages int) {
	k.Helper()
	err := k.pool.QueryRow(k.Context(), "SELECT count(*), count(DISTINCT id) FROM effects").Scan(&rows, &messages)
	if err != nil {
		k.Fatal(err)
	}
	return rows, messages
}

// process is a consumer process.
type process struct {
	*exec.Cmd
	ended chan struct{} // closed when all its output was read
}

// start starts a consumer process. It is killed at the end of the test, unless it has ended.
func (k *kit) start(env ...string) *process {
	k.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.Env = append(append(os.Environ(), brokerEnv+"="+k.name, urlEnv+"="+k.url, queueEnv+"="+k.queueName,
		databaseEnv+"="+k.database), env...)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := p.Start(); err != nil {
		k.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			k.note(lines.Text())
		}
	}()
	k.Cleanup(func() {
		if p.ProcessState == nil {
			p.kill(k)
		}
	})
	return p
}

func (k *kit) note(line string) {
	word, _, _ := strings.Cut(line, " ")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[word]++
	k.logs = append(k.logs, line)
}

// saw counts the lines that begin with a word.
func (k *kit) saw(word string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen[word]
}

func (p *process) signal(k *kit, s syscall.Signal) {
	k.Helper()
	if err := p.Process.Signal(s); err != nil {
		k.Fatal(err)
	}
}

func (p *process) kill(k *kit) {
	k.Helper()
	p.signal(k, syscall.SIGKILL)
	<-p.ended
	if p.Wait(); p.ProcessState.ExitCode() >= 0 {
		k.Errorf("a consumer ended by itself: %v", p.ProcessState)
	}
}

// stop ends the process cleanly, with its handlers.
func (p *process) stop(k *kit) {
	k.Helper()
	p.signal(k, syscall.SIGTERM)
	<-p.ended
	if err := p.Wait(); err != nil {
		k.Errorf("a consumer that was told to stop: %v", err)
	}
}

// until polls until the condition holds, and fails after patience.
func (k *kit) until(what string, patience time.Duration, so func() bool) {
	k.Helper()
	if within(patience, so) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Fatalf("not %s within %v; seen: %v; last: %q", what, patience, k.seen, k.logs[max(0, len(k.logs)-10):])
}

// within polls until the condition holds, or patience ends.
func within(patience time.Duration, so func() bool) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}
