package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// systemd accepts the unit, the proxy accepts its command line, and a stop gives the proxy the time that it takes.
//
// Seen to fail with "ProtectSystem=strictly", "--configuration", "RETRYSAFE_STOER" and "TimeoutStopSec=30s".
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	read, err := os.ReadFile(filepath.Join(repository, "deploy", "retrysafe.service"))
	clitest.Must(t, err)
	unit := string(read)
	value := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if found == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return found[1]
	}
	start := strings.Fields(value("ExecStart"))
	if problem := checkRetrysafe(start[1:]); problem != "" {
		t.Errorf("ExecStart: %s", problem)
	}
	help := clitest.Run(t, "proxy", "--help").Stdout
	for _, name := range regexp.MustCompile(`RETRYSAFE_\w+`).FindAllString(unit, -1) {
		clitest.WantText(t, "help", help, "$"+name)
	}
	stop, err := time.ParseDuration(value("TimeoutStopSec"))
	clitest.Must(t, err)
	found := regexp.MustCompile(`running operations at\s+shutdown\.\s+Default\s+(\w+)\s`).FindStringSubmatch(help)
	if found == nil {
		t.Fatalf("--help does not say how long --grace is:\n%s", help)
	}
	grace, err := time.ParseDuration(found[1])
	clitest.Must(t, err)
	if stop < grace+10*time.Second {
		t.Errorf("systemd kills the proxy after %v, and it may take %v and the time to save answers", stop, grace)
	}

	place := filepath.Join(t.TempDir(), "retrysafe.service") // with a program that is there
	clitest.Must(t, os.WriteFile(place, []byte(strings.ReplaceAll(unit, start[0], clitest.Binary)), 0o600))
	verify := exec.Command(servers.SystemdAnalyze(t), "verify", "--man=no", "--recursive-errors=no", place)
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
