//go:build unix

package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// attemptStore is the environment variable of an attempt's process with its store, a file or a URL. If it is empty, the
// process runs the tests.
const attemptStore = "RETRYSAFE_TEST_ATTEMPT"

func theRequest() retrysafe.Request {
	return retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "pay-1"}, Fingerprint: "raw1:a"}
}

// working returns a guard that reruns abandoned keys, while other guards of the deployment refuse them. No heartbeat is
// due before the test has let the lease end.
func working(s retrysafe.Store) *retrysafe.Guard {
	policy := retrysafe.Policy{Lease: patience, OnAbandoned: retrysafe.Rerun()}
	return retrysafe.New(s, retrysafe.Options{Policy: policy, StoreTimeout: patience, SweepEvery: -1})
}

// TestAttemptProcess is the process of an attempt, when the test binary is started as one.
func TestAttemptProcess(t *testing.T) {
	name := os.Getenv(attemptStore)
	if name == "" {
		return // not started as one
	}
	var store retrysafe.Store
	if strings.HasPrefix(name, "postgres://") {
		store = openMigrated(t, openPool(t, name))
	} else {
		store = openFile(t, name)
	}
	_, err := working(store).Do(t.Context(), theRequest(),
		func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			woken := make(chan os.Signal, 1)
			signal.Notify(woken, syscall.SIGCONT)
			fmt.Println("working") // no transaction is open here
			<-woken
			return retrysafe.Result{Body: []byte("zombie")}, nil
		})
	fmt.Println("ended:", errors.Is(err, retrysafe.ErrLeaseLost))
}

func openFile(t *testing.T, name string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(name, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// attemptProcess is the process of an attempt.
type attemptProcess struct {
	*exec.Cmd
	t      *testing.T
	output *bufio.Scanner
}

// startAttempt starts a process, and returns when its work has begun.
func startAttempt(t *testing.T, store string) *attemptProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAttemptProcess$")
	cmd.Env = append(os.Environ(), attemptStore+"="+store)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &attemptProcess{cmd, t, bufio.NewScanner(output)}
	p.wantLine("working")
	return p
}

func (p *attemptProcess) wantLine(want string) {
	p.t.Helper()
	if !p.output.Scan() || p.output.Text() != want {
		p.t.Fatalf("the process printed %q, %v; want %q", p.output.Text(), p.output.Err(), want)
	}
}

func (p *attemptProcess) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// pause returns when the process stands still.
func (p *attemptProcess) pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.t.Fatalf("the process is not paused: %v, %v", status, err)
	}
}

// zombieBeside starts an attempt that takes the key over and pauses. wake resumes it and returns when it was refused.
// Only one process can open a file, so there the zombie is in this process.
func zombieBeside(t *testing.T, s retrysafe.Store, name string) (wake func()) {
	if strings.HasPrefix(name, "postgres://") {
		p := startAttempt(t, name)
		p.pause()
		return func() {
			p.signal(syscall.SIGCONT)
			p.wantLine("ended: true")
		}
	}
	woken, began, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := working(s).Do(context.Background(), theRequest(),
			func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				close(began)
				<-woken
				return retrysafe.Result{Body: []byte("zombie")}, nil
			})
		ended <- err
	}()
	<-began
	return func() {
		close(woken)
		if err := <-ended; !errors.Is(err, retrysafe.ErrLeaseLost) {
			t.Errorf("the zombie ended with %v, want ErrLeaseLost", err)
		}
	}
}

// abandon lets the lease of attempt n at the key end, as if an hour had passed.
func abandon(t *testing.T, s retrysafe.Inspector, name string, n int) {
	t.Helper()
	driver, source, table := "sqlite", "file:"+name+"?_pragma=busy_timeout(60000)", "retrysafe_records"
	if strings.HasPrefix(name, "postgres://") {
		driver, source, table = "pgx", name, "retrysafe.claims"
	}
	_, aged := openDB(t, driver, source).Exec("UPDATE " + table + " SET ends_at = ends_at - 3600000000")
	found, err := s.Inspect(t.Context(), theRequest().Key.Digest())
	if err := errors.Join(aged, err); err != nil || len(found) != 1 || found[0].State != retrysafe.Pending ||
		found[0].LeaseLeft != 0 || found[0].Attempt != n {
		t.Fatalf("attempt %d is not abandoned: %+v, %v", n, found, err)
	}
}

// A process is killed while its work runs. Another one takes the key over, and is paused for longer than its lease.
// An operator then resolves the key, and the zombie resumes with its own answer. Every retry gets the operator's
// decision, before and after.
//
// Seen to fail with owner, fence and state not compared by Complete of each store (the zombie's answer was accepted,
// and on SQLite every retry got it), and with the entry of the trail not saved.
func TestResolveAfterAKillBesideAZombie(t *testing.T) {
	for _, action := range []retrysafe.ResolveAction{
		retrysafe.ResolveComplete, retrysafe.ResolveFail,
		retrysafe.ResolveRelease,
	} {
		t.Run("sqlite/"+string(action), func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "keys.db")
			resolveBesideAZombie(t, name, action, func() retrysafe.Store { return openFile(t, name) })
		})
		t.Run("postgres/"+string(action), func(t *testing.T) {
			t.Parallel()
			name := shared.Get(t).Database(t)
			store := openPostgres(t, name) // the schema must exist before the processes start
			resolveBesideAZombie(t, name, action, func() retrysafe.Store { return store })
		})
	}
}

func resolveBesideAZombie(t *testing.T, name string, action retrysafe.ResolveAction, open func() retrysafe.Store) {
	killed := startAttempt(t, name)
	killed.signal(syscall.SIGKILL)
	_ = killed.Wait() // an error is expected, because it was killed
	s := open()
	abandon(t, s.(retrysafe.Inspector), name, 1)
	wake := zombieBeside(t, s, name)
	abandon(t, s.(retrysafe.Inspector), name, 2)

	guard := retrysafe.New(s, retrysafe.Options{StoreTimeout: patience, SweepEvery: -1}) // refuses abandoned keys
	runs := 0
	retry := func() string {
		out, err := guard.Do(t.Context(), theRequest(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			runs++
			return retrysafe.Result{Body: []byte("ran")}, nil
		})
		var f *retrysafe.Failure
		if errors.As(err, &f) && f.Resolved {
			return "not executed"
		}
		if err != nil {
			return err.Error()
		}
		return string(out.Result.Body)
	}
	if got := retry(); !strings.Contains(got, retrysafe.ErrAbandoned.Error()) {
		t.Fatalf("before: %q", got)
	}
	r := retrysafe.Resolution{Action: action, Reason: "asked the bank", By: "ada"}
	if action == retrysafe.ResolveComplete {
		r.Result.Body = []byte("found")
	}
	if _, err := guard.Resolve(t.Context(), theRequest().Key.Digest(), r); err != nil {
		t.Fatal(err)
	}
	want := map[retrysafe.ResolveAction]string{"complete": "found", "fail": "not executed", "release": "ran"}[action]
	for i := range 4 {
		if i == 2 {
			wake()
		}
		if got := retry(); got != want {
			t.Errorf("retry %d got %q, want %q", i, got, want)
		}
	}
	if wantRuns := map[bool]int{true: 1}[action == retrysafe.ResolveRelease]; runs != wantRuns {
		t.Errorf("the work ran %d times after the decision, want %d", runs, wantRuns)
	}
	found, err := s.(retrysafe.Inspector).Inspect(t.Context(), theRequest().Key.Digest())
	if err != nil || len(found) != 1 {
		t.Fatalf("Inspect = %d records, %v", len(found), err)
	}
	trail := found[0].Trail()
	if len(trail) != 1 || trail[0].Action != action || trail[0].By != "ada" || trail[0].Reason != "asked the bank" ||
		trail[0].Attempt != 3 || trail[0].Unfinished {
		t.Errorf("the trail is %+v", trail)
	}
	t.Logf("the trail: %+v", trail)
}
