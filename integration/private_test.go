package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// The files contain answers, so other users must not be able to read them. Seen to fail with createPrivate taken out
// of Open.
func TestStoreFilesAreTheOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	store, err := sqlitestore.Open(filepath.Join(dir, "keys.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Claim(context.Background(), retrysafe.ClaimParams{
		Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has permissions %v, %v", f.Name(), info.Mode().Perm(), err)
		}
	}
}
