package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/bench/peers/plain"
)

// A single caller cannot share syncs: a claim and a completion need two, here as well as with pgbench.
//
// Seen to fail with synchronous_commit off (0 and 0.01).
func TestAPairOnPostgresIsTwoSyncs(t *testing.T) {
	r := &run{Quick: true, log: io.Discard, began: time.Now(), dir: reachableFolder(t)}
	s, err := startPostgres(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	bench, err := s.pgbench(r)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.store(t.Context(), "syncs")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.exec(t.Context(), plain.PostgresTable); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func() (pairs int64, err error)
	}{
		{"pgstore", func() (int64, error) {
			got, err := call[results](t.Context(), place{}, pgPairs{
				race: race{1, 300 * time.Millisecond}, Store: store, Server: s.PID(), Callers: 1,
			})
			return got[ours].Count, err
		}},
		{"pgbench", func() (int64, error) {
			done, err := bench.Work(t.Context(), 1, time.Second)
			return done.Count, err
		}},
	} {
		before := syncs(t, s)
		pairs, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		if pairs == 0 {
			t.Errorf("%s: no pairs", c.name)
		}
		// The server counts a connection's work shortly after the connection has ended.
		got := int64(0)
		for giveUpAt := time.Now().Add(time.Minute); got < 2*pairs && time.Now().Before(giveUpAt); {
			got = syncs(t, s) - before
		}
		if got < 2*pairs {
			t.Errorf("%s: %d syncs in %d pairs, want two for each", c.name, got, pairs)
		}
	}
}

// syncs returns how often the server has synced its log.
func syncs(t *testing.T, s *pgServer) (n int64) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), "SELECT wal_sync FROM pg_stat_wal").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// reachableFolder returns a folder to which the server's user has access, unlike t.TempDir.
func reachableFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-bench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Seen to fail with the children left out, and with the ended children left out.
func TestCPUOfAFamilyIsThatOfAll(t *testing.T) {
	const work = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`
	for name, script := range map[string]string{
		"a child that has ended": "(" + work + "); echo done; read x; echo end",
		"a child":                "exec 3<&0; (" + work + "; echo done; read x <&3) & wait; echo end",
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		out := startScript(t, cmd)
		awaitLine(t, out, "done\n")
		cpu := time.Duration(0)
		for giveUpAt := time.Now().Add(time.Minute); cpu < 50*time.Millisecond && time.Now().Before(giveUpAt); {
			var err error
			if cpu, err = familyCPU(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		if own, err := processCPU(cmd.Process.Pid); cpu < 50*time.Millisecond || own >= cpu || err != nil {
			t.Errorf("%s: %v, of which the parent's own %v, %v; want more than 50 ms, and the parent's less", name,
				cpu, own, err)
		}
	}
}

// startScript starts cmd, which ends with the test, and returns its output.
func startScript(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return bufio.NewReader(out)
}

func awaitLine(t *testing.T, out *bufio.Reader, want string) {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("no line %q: %v", want, err)
		}
		if line == want {
			return
		}
	}
}

// Seen to fail with the mode of the run's folder left as os.MkdirTemp makes it.
func TestTheServersUserReachesItsFolder(t *testing.T) {
	folder, err := reachable(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(folder): 0o711, folder: 0o777} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: mode %o, want %o", path, got, want)
		}
	}
}
