package inbox

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// While the disk of the database is full, requests get 503 and are told to retry with the same key; what was acknowledged
// before is there. Once there is space, they are accepted, and each has run once, although deliveries could not be marked.
func TestFullDisk(t *testing.T) {
	servers.SmallDisk(t, 24<<20, func(t *testing.T, folder string) {
		t.Run("SQLite", func(t *testing.T) {
			filler := filepath.Join(folder, "filler")
			if err := os.WriteFile(filler, make([]byte, 16<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			k := newKitAt(t, outbox.SQLite, "sqlite", fileURL(folder))
			acceptUntilFull(k, func() error { return os.Remove(filler) })
			k.db.Close()
			for _, name := range []string{"inbox.db", "inbox.db-wal", "inbox.db-shm"} {
				_ = os.Remove(filepath.Join(folder, name)) // room for the next
			}
		})
		t.Run("PostgreSQL", func(t *testing.T) {
			pg := servers.StartPostgres(t, servers.PostgresOptions{})
			owner, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pg.PID())))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(folder, int(owner.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
				t.Fatal(err)
			}
			pg.Psql(t, "CREATE TABLESPACE small LOCATION '"+folder+"'")
			k := newKitAt(t, outbox.PostgreSQL, "pgx", pg.Database(t)+"&default_tablespace=small")
			if _, err := k.db.Exec(`CREATE TABLE filler (b bytea); ALTER TABLE filler ALTER b SET STORAGE PLAIN;
				INSERT INTO filler SELECT repeat('x', 8000)::bytea FROM generate_series(1, 1500)`); err != nil {
				t.Fatal(err)
			}
			acceptUntilFull(k, func() error {
				_, err := k.db.Exec("DROP TABLE filler")
				return err
			})
		})
	})
}

// An inbox in the file of the keys, while the service is down, leaves space for the keys under which the requests are going
// to be delivered: they are refused before, and those that were accepted are delivered although nothing was deleted.
//
// Seen to fail without Options.Space: the inbox filled the disk, and no delivery could claim its key.
func TestTheInboxLeavesSpaceForItsKeys(t *testing.T) {
	servers.SmallDisk(t, 64<<20, func(t *testing.T, folder string) {
		k := newKitAt(t, outbox.SQLite, "sqlite", fileURL(folder))
		store, err := sqlitestore.New(k.db, sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		k.store, k.options.Space = store, store.CheckSpace
		text, n := strings.Repeat("x", 100<<10), 0
		for {
			a := k.post(fmt.Sprintf(`{"id":%d,"text":"%s"}`, n, text))
			if a.Code != http.StatusAccepted {
				a.wantCode(http.StatusServiceUnavailable, "inbox-full")
				break
			}
			n++
		}
		k.run()
		k.settled(n, 0)
		if n < 100 {
			t.Errorf("%d requests were accepted", n)
		}
	})
}

// acceptUntilFull sends requests until the disk is full, and some more when there is space again.
func acceptUntilFull(k *kit, makeSpace func() error) {
	k.Helper()
	k.run()
	request := func(i int) string { // that cannot be compressed much
		var text strings.Builder
		for n := range 12_000 {
			fmt.Fprintf(&text, "%08x", uint32(n*i+n*n*7919))
		}
		return fmt.Sprintf(`{"id":%d,"text":"%s"}`, i, &text)
	}
	n := 0
	for ; ; n++ {
		a := k.post(request(n))
		if a.Code == http.StatusAccepted && n < 1000 {
			continue
		}
		a.wantCode(http.StatusServiceUnavailable, "store-unavailable")
		if !strings.Contains(a.Body.String(), `"retryable":true`) || a.Header().Get("Retry-After") == "" {
			k.Errorf("got %s", a.Body)
		}
		break
	}
	if n == 0 {
		k.Fatal("nothing was accepted")
	}
	k.post(request(n)).wantCode(http.StatusServiceUnavailable, "store-unavailable")
	if err := makeSpace(); err != nil {
		k.Fatal(err)
	}
	k.until("requests are accepted again", func() bool { return k.post(request(n)).Code == http.StatusAccepted })
	k.settled(n+1, 0)
	runs := map[string]int{}
	for _, body := range k.seen() {
		id, _, _ := strings.Cut(body, ",")
		runs[id]++
	}
	for id, times := range runs {
		if times != 1 {
			k.Errorf("%s ran %d times", id, times)
		}
	}
	if len(runs) != n+1 {
		k.Errorf("%d requests ran, want %d", len(runs), n+1)
	}
}
