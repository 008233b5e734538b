package servers_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Seen to fail with a watchdog that kills the first process alone: the workers went on.
func TestNothingOfNginxIsLeft(t *testing.T) {
	t.Parallel()
	n, err := servers.LaunchNginx(servers.NginxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	children := "/proc/" + strconv.Itoa(n.PID()) + "/task/*/children"
	files, err := filepath.Glob(children)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", children, err)
	}
	text, err := os.ReadFile(files[0])
	workers := strings.Fields(string(text))
	if err != nil || len(workers) == 0 {
		t.Fatalf("no workers: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	for _, worker := range workers {
		stat, err := os.ReadFile("/proc/" + worker + "/stat")
		if err == nil && strings.Contains(string(stat), "(nginx) ") && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("a worker is left: %s", stat)
		}
	}
}
