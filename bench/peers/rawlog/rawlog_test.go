package rawlog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/bench/peers/rawlog"
)

// Seen to fail with the Write in flush taken out.
func TestWhatIsAppendedIsInTheFileWhenAppendReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := rawlog.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const callers, each = 16, 20
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				if err := l.Append(fmt.Appendf(nil, "<%d/%d>", c, i)); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range callers * each {
		if record := fmt.Appendf(nil, "<%d/%d>", i/each, i%each); bytes.Count(data, record) != 1 {
			t.Errorf("the file has the record %s %d times, want once", record, bytes.Count(data, record))
		}
	}
}

// Seen to fail with the check of closed taken out.
func TestAppendAfterCloseIsRefused(t *testing.T) {
	l, err := rawlog.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]byte("late")); err != rawlog.ErrClosed {
		t.Errorf("got %v, want ErrClosed", err)
	}
}
