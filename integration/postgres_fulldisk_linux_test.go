package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The server cannot write a file beyond a size, as on a full disk: completions fail, and no key becomes free because
// of it. Once there is space, they continue, and everything that was acknowledged still exists. Seen to fail with
// errors of the completion's batch ignored.
func TestFullDiskOfPostgres(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	store := openPostgres(t, pg.Database(t))
	limitFiles(t, pg, "16777216") // a segment of the write-ahead log fits, a seventeenth large answer does not
	acknowledged := map[string]retrysafe.Lease{}
	var refused retrysafe.Lease
	for i := 0; refused.Fence == 0; i++ {
		id := strconv.Itoa(i)
		claim, err := store.Claim(t.Context(), fullDiskParams(id))
		if err != nil || i > 100 {
			t.Fatalf("claim %s: %v", id, err)
		}
		err = store.Complete(t.Context(), claim.Lease, largeResult(id), retrysafe.Retention{})
		if err == nil {
			acknowledged[id] = claim.Lease
			continue
		}
		t.Logf("after %d answers of 1 MB: %v", len(acknowledged), err)
		refused = claim.Lease
	}
	again, err := store.Claim(t.Context(), fullDiskParams(refused.Key.ID))
	if err != nil || again.Verdict != retrysafe.InFlight {
		t.Errorf("while the disk is full: got %v, %v, want in flight", again.Verdict, err)
	}

	limitFiles(t, pg, "unlimited")
	if err := store.Complete(t.Context(), refused, largeResult(refused.Key.ID), retrysafe.Retention{}); err != nil {
		t.Errorf("once there is space again: %v", err)
	}
	acknowledged[refused.Key.ID] = refused
	for id, l := range acknowledged {
		got, err := store.Claim(t.Context(), fullDiskParams(id))
		if err != nil || got.Verdict != retrysafe.Done || got.Record.Fence != l.Fence ||
			string(got.Record.Result.Body) != string(largeResult(id).Body) {
			t.Errorf("key %s: got %v with %d bytes, %v", id, got.Verdict, len(got.Record.Result.Body), err)
		}
	}
}

func fullDiskParams(id string) retrysafe.ClaimParams {
	return retrysafe.ClaimParams{Key: retrysafe.Key{Scope: "disk", ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Hour}
}

// largeResult returns an incompressible megabyte, always the same for an ID.
func largeResult(id string) retrysafe.Result {
	seed := [32]byte{}
	copy(seed[:], id)
	body := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8(seed).Read(body) // it never fails
	return retrysafe.Result{Body: body}
}

// limitFiles lets the kernel refuse writes beyond a size to every process of the server and its children: to the first
// one before the others, so that it starts none without the limit. The owner of the processes may set and reset that;
// root may not on every system.
func limitFiles(t *testing.T, pg *servers.Postgres, size string) {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pg.PID()))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	limit := func(pid string) {
		cmd := exec.Command("prlimit", "--pid", pid, "--fsize="+size+":")
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		if os.Getuid() != int(owner.Uid) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "No such process") { // connections and workers end at any time
			t.Fatalf("prlimit: %v: %s", err, out)
		}
	}
	limit(strconv.Itoa(pg.PID()))
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pg.PID(), pg.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(children)) {
		limit(pid)
	}
}
