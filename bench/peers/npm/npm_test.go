package npm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Seen to fail with a "resolved" line put back.
func TestLockFilesPinVersionsAndNameNoHost(t *testing.T) {
	names, err := filepath.Glob("../*/package-lock.json")
	if err != nil || len(names) != 2 {
		t.Fatalf("got %v, %v; want two lock files", names, err)
	}
	for _, file := range names {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct{ Version, Integrity string }
		}
		if err := json.Unmarshal(text, &lock); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "://") {
			t.Errorf("%s names a host", file)
		}
		for name, p := range lock.Packages {
			if name != "" && (p.Version == "" || p.Integrity == "") {
				t.Errorf("%s: %s is not pinned", file, name)
			}
		}
	}
}
