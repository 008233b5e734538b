package rawlog_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/bench/rawlog"
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
				if err := l.Append(fmt.Appendf(nil, "%d/%d", c, i)); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	records, err := rawlog.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range records {
		seen[string(r)] = true
	}
	if len(records) != callers*each || len(seen) != callers*each {
		t.Errorf("got %d records, %d different, want %d", len(records), len(seen), callers*each)
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
