package dbos

import (
	"encoding/json"
	"strings"
	"testing"
)

// Seen to fail with a "resolved" line put back.
func TestTheLockFilePinsVersionsAndNamesNoHost(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(packageLock, &lock); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(packageLock), "://") {
		t.Error("the lock file names a host")
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || p.Integrity == "") {
			t.Errorf("%s is not pinned", name)
		}
	}
}
