package filejournal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/client/journaltest"
)

// Seen to fail with the header taken out of what is written, with GiveUp's line, with inOrder's sorting, and with the
// look for a known entry taken out of Begin.
func TestFileJournal(t *testing.T) {
	for _, open := range []func(string) (*filejournal.Journal, error){filejournal.Open, openEager} {
		journaltest.Run(t, func(t *testing.T) journaltest.OpenFunc {
			path := filepath.Join(t.TempDir(), "journal")
			var j *filejournal.Journal
			t.Cleanup(func() { j.Close() })
			return func() client.Journal {
				if j != nil {
					j.Close()
				}
				j = must(open(path))(t)
				return j
			}
		})
	}
}

// openEager opens a journal that is compacted whenever that makes it smaller.
func openEager(path string) (*filejournal.Journal, error) { return filejournal.OpenCompacting(path, 1) }

func openJournal(t testing.TB, path string) *filejournal.Journal {
	t.Helper()
	return must(filejournal.Open(path))(t)
}

// must returns the journal that was opened, and closes it when the test ends.
func must(j *filejournal.Journal, err error) func(t testing.TB) *filejournal.Journal {
	return func(t testing.TB) *filejournal.Journal {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		return j
	}
}

func journalled(n int) client.Entry {
	return client.Entry{
		ID: fmt.Sprintf("%032x", n), Key: "k", Method: http.MethodPost, URL: "https://bank.example/charges",
		Body: []byte("17"), BegunAt: time.UnixMilli(int64(n)),
	}
}

// Seen to fail with lockFile taken out.
func TestOneProcessHasTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	if _, err := filejournal.Open(path); !errors.Is(err, filejournal.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	j.Close()
	j.Close()
	if _, err := j.Begin(context.Background(), journalled(1)); !errors.Is(err, filejournal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	openJournal(t, path)
}

// A link to a file that does not exist yet is the same journal as that file. Seen to fail with the file not created
// before its links are resolved: both had it.
func TestADanglingLinkIsTheSameJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.Symlink(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path+".link")
	if _, err := filejournal.Open(path); !errors.Is(err, filejournal.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
}

// Bodies may be secret. Seen to fail with Chmod taken out of load, for a file that was there already.
func TestTheJournalIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(path, []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	j := must(openEager(path))(t)
	for range 3 {
		if _, err := j.Begin(context.Background(), journalled(1)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + ".lock"} {
			info, err := os.Stat(name)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if err := j.End(context.Background(), journalled(1).ID); err != nil {
			t.Fatal(err)
		}
	}
}

// A crash may tear the last line anywhere: what came before it is there, and what follows is written as if nothing had
// been.
// Seen to fail with Truncate taken out of load: the next line was joined to the torn one and lost.
func TestATornLineIsDropped(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "journal")
	j := openJournal(t, path)
	var before int64
	for n := range 2 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		before = info.Size()
		if _, err := j.Begin(context.Background(), journalled(n)); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := before; cut < int64(len(whole)); cut += 11 {
		torn := filepath.Join(folder, fmt.Sprint("torn", cut))
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j := openJournal(t, torn)
		if _, err := j.Begin(context.Background(), journalled(7)); err != nil || j.Damaged() != 0 {
			t.Fatalf("cut at %d: %v, %d damaged", cut, err, j.Damaged())
		}
		j.Close()
		j = openJournal(t, torn)
		all, err := j.Entries(context.Background())
		if err != nil || len(all) != 2 || all[0].ID != journalled(0).ID || all[1].ID != journalled(7).ID {
			t.Fatalf("cut at %d: %v, %v", cut, all, err)
		}
		j.Close()
	}
}

// Seen to fail with the checksum taken out of parseLine: a changed line was taken for good.
func TestADamagedLineIsKeptForPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for n := range 3 {
		if _, err := j.Begin(context.Background(), journalled(n)); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[1] = bytes.Replace(lines[1], []byte("bank.example"), []byte("evil.example"), 1)
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, path)
	if all, err := j.Entries(context.Background()); err != nil || len(all) != 2 || j.Damaged() != 1 {
		t.Errorf("%v, %v, %d damaged", all, err, j.Damaged())
	}
	kept, err := os.ReadFile(path + ".damaged")
	if err != nil || !bytes.Equal(kept, lines[1]) {
		t.Errorf("kept %q, %v", kept, err)
	}
	j.Close()
	if j = openJournal(t, path); j.Damaged() != 0 {
		t.Error("the damage was not taken out of the file")
	}
}

// Seen to fail with compactIfWorth taken out of End: the file grew to a hundred times the limit.
func TestTheFileDoesNotGrowForGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := must(filejournal.OpenCompacting(path, 10_000))(t)
	if _, err := j.Begin(context.Background(), journalled(0)); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 100; n++ {
		e := journalled(n)
		e.Body = make([]byte, 2000)
		if _, err := j.Begin(context.Background(), e); err != nil {
			t.Fatal(err)
		}
		if err := j.End(context.Background(), e.ID); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 20_000 {
			t.Fatalf("after %d the file has %d bytes, %v", n, info.Size(), err)
		}
	}
	j.Close()
	if all, err := openJournal(t, path).Entries(context.Background()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// Whatever the file holds, opening neither fails nor invents, and what is written afterwards is there.
func TestWhateverTheFileHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for n := range 3 {
		if _, err := j.Begin(context.Background(), journalled(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.End(context.Background(), journalled(0).ID),
		j.GiveUp(context.Background(), journalled(1).ID, "late"), j.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{
		whole, whole[:len(whole)-5], append(whole[100:len(whole):len(whole)], whole...), []byte("torn"),
		[]byte("00000000 {}\n\n\x00\x00\x00"), []byte(`00000000 {"end":""}` + "\n"),
	} {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j := openJournal(t, path)
		before, err := j.Entries(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range before {
			if !bytes.Contains(text, []byte(e.ID)) {
				t.Errorf("%s was invented", e.ID)
			}
		}
		if _, err := j.Begin(context.Background(), journalled(99)); err != nil {
			t.Fatal(err)
		}
		j.Close()
		j = openJournal(t, path)
		after, err := j.Entries(context.Background())
		if err != nil || len(after) != len(before)+1 || j.Damaged() != 0 {
			t.Errorf("%d entries, then %d, %v, %d damaged", len(before), len(after), err, j.Damaged())
		}
		j.Close()
	}
}

// A file has one owner, by whatever name it is opened, and stays where it is. Seen to fail with the path taken as it
// was given: two had the file open, and after a change of folder the entries went to another file.
func TestFileJournalIsWhereItWasOpened(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	j, err := openEager("journal")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := os.Symlink(filepath.Join(folder, "journal"), filepath.Join(folder, "other")); err != nil {
		t.Fatal(err)
	}
	if other, err := filejournal.Open(filepath.Join(folder, "other")); !errors.Is(err, filejournal.ErrInUse) {
		t.Errorf("a second one is open: %v", err)
		other.Close()
	}
	t.Chdir(t.TempDir())
	for n := range 10 {
		id := fmt.Sprintf("%032x", n)
		if _, err := j.Begin(t.Context(), client.Entry{ID: id, Key: "k"}); err != nil {
			t.Fatal(err)
		}
		if err := j.End(t.Context(), id); n < 9 && err != nil { // which writes the file anew
			t.Fatal(err)
		}
	}
	if _, err := j.Begin(t.Context(), client.Entry{ID: "aa", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := filejournal.Open(filepath.Join(folder, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if entries, err := again.Entries(t.Context()); err != nil || len(entries) != 1 {
		t.Errorf("%d entries after a change of folder, want 1: %v", len(entries), err)
	}
}
