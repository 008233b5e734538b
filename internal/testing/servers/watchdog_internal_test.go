package servers

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childVariable names the state in which this test binary starts a server, as a child process that then waits.
const childVariable = "RETRYSAFE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch state := os.Getenv(childVariable); state {
	case "":
	case "missing":
		fmt.Println(installMissing(program{paths: []string{"/bin/sh"}, pkg: "dash"},
			program{name: "no-such-program", pkg: "some-package", instead: "set URL"},
			program{name: "none-either", pkg: "other-package"}))
		os.Exit(0)
	default:
		fmt.Println(startIn(state))
		time.Sleep(time.Hour) // until it is killed; select {} would count as a deadlock, and end it
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // more than there are processors, because starting servers mostly wait
	os.Exit(m.Run())
}

// startIn starts a server, puts it into the state, and returns its process id and its folder.
func startIn(state string) (int, string, error) {
	p, err := LaunchPostgres(PostgresOptions{})
	if err != nil {
		return 0, "", err
	}
	pid := p.PID()
	switch state {
	case "paused":
		err = p.pause()
	case "killed":
		err = p.kill()
	}
	return pid, p.folder.path, err
}

// Seen to fail with the watchdog's signal taken out; with its CONT and KILL taken out (paused); with its epilogue
// taken out (killed); with its rm taken out; and with the watchdog in the test's own process group.
func TestNothingOutlivesAKilledTest(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"running", "paused", "killed"} {
		t.Run(state, func(t *testing.T) {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childVariable+"="+state)
			detach(child, account{})
			out, err := child.StdoutPipe()
			check(t, errors.Join(err, child.Start()))
			line, err := bufio.NewReader(out).ReadString('\n')
			check(t, err)
			var pid int
			var path string
			if n, err := fmt.Sscan(line, &pid, &path); n < 2 || !strings.HasSuffix(line, "<nil>\n") {
				t.Fatalf("the child says %q: %v", line, err)
			}
			table, err := listProcesses()
			check(t, err)
			family := table.family(pid)
			if (state == "killed") != (len(family) == 0) {
				t.Fatalf("%s, the server has the processes %v", state, family)
			}
			memory := sharedMemory(t, path)

			// its process group, as a terminal or a CI job kills it
			check(t, signal(syscall.SIGKILL, -child.Process.Pid))
			_ = child.Wait() // it was killed
			check(t, until("gone with its test", func(t processTable) bool {
				_, err := os.Stat(path)
				return errors.Is(err, os.ErrNotExist) && !slices.ContainsFunc(family, t.alive)
			}))
			if slices.Contains(listMemory(t), memory) {
				t.Errorf("shared memory %s is left behind", memory)
			}
		})
	}
}

// sharedMemory returns the ID of the shared memory of the server in this folder.
func sharedMemory(t *testing.T, path string) string {
	lock, err := os.ReadFile(path + "/data/postmaster.pid")
	check(t, err)
	return strings.Fields(strings.Split(string(lock), "\n")[6])[1]
}

// listMemory returns the IDs of all shared memory, which stand in the second column. Other columns have small numbers, too.
func listMemory(t *testing.T) (ids []string) {
	out, err := exec.Command("ipcs", "-m").Output()
	check(t, err)
	for line := range strings.Lines(string(out)) {
		if columns := strings.Fields(line); len(columns) > 1 {
			ids = append(ids, columns[1])
		}
	}
	return ids
}

// Seen to fail with the check of process.ended taken out of Close.
func TestServerThatEndedByItselfIsReported(t *testing.T) {
	t.Parallel()
	p, err := LaunchPostgres(PostgresOptions{})
	check(t, err)
	check(t, signal(syscall.SIGINT, p.PID()))
	<-p.process.done
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("Close = %v", err)
	}
}

// Seen to fail with only the first process paused: its helpers ran on.
func TestPauseAndKillMeanEveryProcess(t *testing.T) {
	t.Parallel()
	p := StartPostgres(t, PostgresOptions{})
	p.Pause(t)
	table, err := listProcesses()
	check(t, err)
	family := table.family(p.PID())
	if len(family) < 4 {
		t.Errorf("the server has the processes %v: want its helpers too", family)
	}
	for _, pid := range family {
		if !table.stopped(pid) {
			t.Errorf("process %d of a paused server is %q", pid, table[pid].stat)
		}
	}
	p.Kill(t)
	table, err = listProcesses()
	check(t, err)
	for _, pid := range family {
		if table.alive(pid) {
			t.Errorf("process %d of a killed server is %q", pid, table[pid].stat)
		}
	}
}

func TestWhatDoesNotRunSaysSo(t *testing.T) {
	t.Parallel()
	p := StartPostgres(t, PostgresOptions{})
	if err := p.start(); !errors.Is(err, errUp) {
		t.Errorf("start of a running server = %v", err)
	}
	p.Stop(t)
	for name, f := range map[string]func() error{"stop": p.end, "kill": p.kill, "pause": p.pause, "resume": p.resume} {
		if err := f(); !errors.Is(err, errDown) {
			t.Errorf("%s of a stopped server = %v", name, err)
		}
	}
}
