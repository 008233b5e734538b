//go:build unix

package proxycmd

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// docs/production.md: a copy of a SQLite file that a proxy is writing, made by VACUUM INTO, has each answer that was
// given before the copy began, and another proxy can go on with it.
//
// Seen to fail with a copy of the file alone (cp keys.db), which lacks what is in keys.db-wal: most retries ran
// again.
func TestBackupOfALiveFile(t *testing.T) {
	t.Parallel()
	upstream, dir := clitest.NewAPI(t), t.TempDir()
	live, backup := filepath.Join(dir, "keys.db"), filepath.Join(dir, "backup.db")
	p := clitest.StartProxy(t, "--upstream="+upstream.URL, "--store="+live)
	const before = 40
	for n := range before {
		clitest.Want(t, "status", p.MustPost(fmt.Sprint("before", n), "amount=1").StatusCode, 201)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				if _, err := p.Post(fmt.Sprint("during", n), "amount=1"); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: live}).String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "VACUUM INTO '"+backup+"'")
	close(stop)
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	restored := clitest.StartProxy(t, "--upstream="+upstream.URL, "--store="+backup)
	for n := range before {
		got := restored.MustPost(fmt.Sprint("before", n), "amount=1")
		clitest.Want(t, fmt.Sprint("replay of ", n), got.Header.Get("Idempotent-Replayed"), "true")
	}
}
