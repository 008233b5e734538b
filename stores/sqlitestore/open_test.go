package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Seen to fail with lockFile taken out of start.
func TestSecondOpenIsRefused(t *testing.T) {
	s := openTest(t)
	_, err := Open(s.Path(), Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), s.Path()) ||
		!strings.Contains(err.Error(), "this process") {
		t.Errorf("Open in the same process: got %v, want ErrInUse with the path and who has it", err)
	}
	db, err := sql.Open("sqlite", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := New(db, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("New in the same process: got %v, want ErrInUse", err)
	}
}

// Seen to fail with lockFile taken out of start.
func TestOtherProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cmd, out := tortured().Start(t, "hold", path)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint("process ", cmd.Process.Pid)) {
		t.Errorf("got %v, want ErrInUse with process %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatalf("after SIGKILL of the other process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func holdUntilKilled(path string) error {
	if _, err := Open(path, Options{}); err != nil {
		return err
	}
	fmt.Println("open")
	select {}
}

// A file that a newer program has migrated, and that says that older ones can work with it, opens: one can go back to
// the older program. Seen to fail with worksWith not asked.
func TestNewerSchemaThatFits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	openAndClose(t, path)
	execute(t, path, "UPDATE retrysafe_meta SET value = 1000 WHERE name = 'schema'")
	s := openAt(t, path, nil)
	if c, err := s.Claim(t.Context(), params("k")); err != nil || c.Verdict != retrysafe.Acquired {
		t.Errorf("got %v, %v", c.Verdict, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]string{
		"newer programs only": "UPDATE retrysafe_meta SET value = 1000 WHERE name = 'oldest'",
		"no program named":    "DELETE FROM retrysafe_meta WHERE name = 'oldest'",
	} {
		execute(t, path, change)
		if _, err := Open(path, Options{}); !errors.Is(err, ErrNewerSchema) {
			t.Errorf("%s: got %v, want ErrNewerSchema", what, err)
		}
	}
}

// Seen to fail with the checks of schemaVersion and migrate taken out, one by one.
func TestForeignFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"text", func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database ", 1000)) }, ErrNotOurs},
		{"other tables", func(t *testing.T, path string) { execute(t, path, "CREATE TABLE theirs (x)") }, ErrNotOurs},
		{"newer schema", func(t *testing.T, path string) {
			openAndClose(t, path)
			execute(t, path, "UPDATE retrysafe_meta SET value = 1000 WHERE name IN ('schema', 'oldest')")
		}, ErrNewerSchema},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			c.make(t, path)
			before := read(t, path)
			s, err := Open(path, Options{})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if read(t, path) != before {
				t.Error("the file has been changed")
			}
		})
	}
}

// Seen to fail with quick_check taken out, and with explain not knowing SQLite's text.
func TestDamageIsReported(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(content []byte) []byte
	}{
		{"header", func(b []byte) []byte { b[3] ^= 0xff; return b }},
		{"schema page", func(b []byte) []byte { return spoil(b, 100, 400) }},
		{"a page of records", func(b []byte) []byte { return spoilLeaf(b, len(b)/2) }},
		{"second half", func(b []byte) []byte { return spoil(b, len(b)/2, len(b)) }},
		{"cut in half", func(b []byte) []byte { return b[:len(b)/2] }},
		{"cut by a page", func(b []byte) []byte { return b[:len(b)-4096] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, s, 500, benchBody)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			spoilt := string(c.damage([]byte(read(t, path))))
			write(t, path, spoilt)
			s, err = Open(path, Options{})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotOurs) {
				t.Fatalf("got %v, want ErrDamaged", err)
			}
			for _, want := range []string{path, "copy", "move it away"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if read(t, path) != spoilt {
				t.Error("the file has been changed")
			}
		})
	}
}

// Damage that only shows while the store is open fails the calls that meet it, and no claim gets a key.
// Seen to fail with explain not knowing SQLite's text.
func TestDamageMetLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1500, make([]byte, 3000))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content := []byte(read(t, path))
	newest := regexp.MustCompile(`scopefill1\d{3}`) // the last of them is looked for when the file is opened
	for page := 100 * 4096; page < len(content); page += 4096 {
		rows := content[page : page+4096]
		if content[page] == leaf && bytes.Contains(rows, []byte("scopefill")) && !newest.Match(rows) {
			spoil(content, page, page+64) // its header
		}
	}
	write(t, path, string(content))
	s = openAt(t, path, nil)
	damaged := 0
	for i := range 50 {
		c, err := s.Claim(t.Context(), params(fmt.Sprint("fill", 30*i)))
		if errors.Is(err, ErrDamaged) {
			damaged++
		} else if err != nil || c.Verdict != retrysafe.Done {
			t.Errorf("got %v and %v, want Done or ErrDamaged", c.Verdict, err)
		}
	}
	if damaged == 0 {
		t.Error("no claim met the damage")
	}
	if err := s.Check(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("Check: got %v, want ErrDamaged", err)
	}
}

func completeOne(ctx context.Context, s *Store, i int) error {
	c, err := s.Claim(ctx, params(fmt.Sprint(i)))
	if err != nil {
		return err
	}
	return s.Complete(ctx, c.Lease, retrysafe.Result{Body: benchBody}, retrysafe.Retention{})
}

// The caller's database may have tables of its own. Seen to fail with Close closing it.
func TestNewSharesADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	execute(t, path, "CREATE TABLE theirs (x)")
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := New(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := completeOne(t.Context(), s, 1); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Ping(); err != nil {
		t.Errorf("Close has closed the caller's database: %v", err)
	}
}

// Seen to hang with stopped taken out of enqueue.
func TestClosed(t *testing.T) {
	s := openTest(t)
	if err := completeOne(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), retrysafe.Lease{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Release: got %v, want ErrClosed", err)
	}
	if _, err := s.Claim(t.Context(), params("1")); !errors.Is(err, ErrClosed) {
		t.Errorf("Claim: got %v, want ErrClosed", err)
	}
	if err := s.readers.read(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("read: got %v, want ErrClosed", err)
	}
}

func TestNewRefusesSmallPoolsAndMemory(t *testing.T) {
	for dsn, want := range map[string]string{
		":memory:": "memstore", "file:" + filepath.Join(t.TempDir(), "x.db"): "SetMaxOpenConns",
	} {
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(2)
		if _, err := New(db, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%s): got %v, want an error that names %s", dsn, err, want)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Fences grow although the clock went back while the store was closed, and the newest record was swept. Seen to fail
// with mark_fence taken out, and with the clock not starting at the last fence.
func TestFenceOutlivesTheClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	aged := new(atomic.Int64)
	aged.Store((1000 * time.Hour).Microseconds())
	s := openAt(t, path, aged)
	c, err := s.Claim(t.Context(), params("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), c.Lease); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	aged.Store(0) // the wall clock goes back
	s = openAt(t, path, aged)
	next, err := s.Claim(t.Context(), params("a"))
	if err != nil {
		t.Fatal(err)
	}
	if next.Lease.Fence <= c.Lease.Fence {
		t.Errorf("got fence %d after %d", next.Lease.Fence, c.Lease.Fence)
	}
	age(s, 30*time.Second)
	seen, err := s.Claim(t.Context(), params("a"))
	if err != nil {
		t.Fatal(err)
	}
	if r := seen.Record; (r.Age-30*time.Second).Abs() > 10*time.Second || r.LeaseLeft > 30*time.Second {
		t.Errorf("after 30 of 60 s: got age %v, and %v left", r.Age, r.LeaseLeft)
	}
}

func openAndClose(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// leaf begins a page that holds rows of a table.
const leaf = 13

// spoilLeaf turns the header of the first leaf from a byte on.
func spoilLeaf(b []byte, from int) []byte {
	page := from / 4096 * 4096
	for b[page] != leaf {
		page += 4096
	}
	return spoil(b, page, page+64)
}

// spoil turns the bits from one byte to another.
func spoil(b []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		b[i] ^= 0xa5
	}
	return b
}

// A file may grow no more, as with a quota that the disk's free space does not show: new keys are refused, and what was
// accepted goes on in its place. Seen to fail without isFull in Claim.
func TestLimitOfPages(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	early, err := s.Claim(t.Context(), params("early"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.conn.ExecContext(t.Context(), "PRAGMA max_page_count = 10"); err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil && i < 1000; i++ {
		_, err = s.Claim(t.Context(), params(fmt.Sprint(i)))
	}
	if !errors.Is(err, retrysafe.ErrStoreFull) {
		t.Errorf("got %v, want ErrStoreFull", err)
	}
	if err := s.Extend(t.Context(), early.Lease, time.Minute); err != nil {
		t.Error(err)
	}
	if err := s.Complete(t.Context(), early.Lease, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
		t.Error(err)
	}
}
