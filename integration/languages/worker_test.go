//go:build unix

package languages

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// worker is a process that reads its orders from standard input.
type worker struct {
	*testing.T
	command *exec.Cmd
	in      io.Writer
	says    chan answer // a line for each message; closed when the process has ended
}

func newWorker(t *testing.T, s *shop, program string) *worker {
	t.Helper()
	w := &worker{T: t, says: make(chan answer, 1)}
	w.command = exec.CommandContext(t.Context(), servers.PythonWith(t, "psycopg"), "-B", program)
	w.command.Env = append(os.Environ(), "DATABASE_URL="+s.app)
	out, err := w.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if w.in, err = w.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.says)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.says <- answer{body: lines.Text()}
		}
		_ = w.command.Wait() // it was killed, or has failed as it should
	}()
	return w
}

func (w *worker) deliver(message string) {
	w.Helper()
	if _, err := io.WriteString(w.in, message+"\n"); err != nil {
		w.Error(err)
	}
}

// want delivers a message, and compares what the broker is told; "" is that the consumer fails.
func (w *worker) want(message, verdict string) {
	w.Helper()
	w.deliver(message)
	if got := (<-w.says).body; got != verdict {
		w.Errorf("%s: %q, want %q", message, got, verdict)
	}
}

// Each message takes effect once, although it is delivered again, to another consumer too, and one of them is killed
// while it works. A message whose work fails is free for the next delivery at once.
//
// Seen to fail with complete taken out (m1 is "again"), with release taken out (so is m3), and with the verdict ignored.
func TestQueueConsumerOfThePage(t *testing.T) {
	s := newDatabase(t)
	const first, second = `{"id": "m1", "customer": "alice", "amount": 10}`, `{"id": "m2", "customer": "bob", "amount": 20}`
	a, b := newWorker(t, s, "worker.py"), newWorker(t, s, "worker.py")
	a.want(first, "acknowledged")
	b.want(first, "acknowledged")
	s.wantCharges("alice", "10")

	release := s.hold(afterInsert)
	a.deliver(second)
	s.held(afterInsert, a.says)
	b.want(second, "again")
	if err := a.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-a.says
	release()
	s.sql("UPDATE retrysafe.claims SET ends_at = ends_at - 3600000000 WHERE state = 1") // the lease expires
	b.want(second, "acknowledged")
	s.wantCharges("bob", "20")

	const unfit = `{"id": "m3", "customer": "carol", "amount": null}`
	b.want(unfit, "")
	newWorker(t, s, "worker.py").want(unfit, "")
	s.wantCharges("carol", "")
}

// The program of docs/when-you-do-not-need-it.md charges each order once, and gives the same answer to all, although it
// is killed in its work and in its COMMIT.
//
// Seen to fail without conn.transaction().
func TestTwentyLinesOfYourOwn(t *testing.T) {
	s := newDatabase(t)
	s.sql(read(t, "answers.sql") + "GRANT SELECT, INSERT, UPDATE ON answers TO " + user(t, s.app))
	for n, place := range []int{afterInsert, atCommit, afterInsert, atCommit} {
		customer := fmt.Sprint("customer ", n)
		order := fmt.Sprintf(`{"id": %q, "customer": %q, "amount": 10}`, customer, customer)
		release := s.hold(place)
		a, b, c := newWorker(t, s, "own_worker.py"), newWorker(t, s, "own_worker.py"), newWorker(t, s, "own_worker.py")
		a.deliver(order)
		s.held(place, a.says)
		if err := a.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-a.says
		b.deliver(order)
		c.deliver(order)
		release()
		if first, second := (<-b.says).body, (<-c.says).body; first != second || !strings.HasPrefix(first, `200 {"id": `) {
			t.Errorf("the answers are %q and %q, want the same 200", first, second)
		}
		s.wantCharges(customer, "10")
		c.want(fmt.Sprintf(`{"id": %q, "customer": %q, "amount": 11}`, customer, customer), "422 the key was used for another request")
	}
}
