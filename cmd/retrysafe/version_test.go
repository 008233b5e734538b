package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// The linker ignores a variable that does not exist, so make install would leave the commit out without saying so. The
// command that is built as make install does prints it.
//
// Seen to fail with commit in package cli renamed to "stamp", and left out of what cli.Version returns.
func TestMakeInstallStampsTheCommit(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	clitest.Must(t, err)
	found := regexp.MustCompile(`go install -ldflags '-X \$\(ROOT\)(/\S+)=\$\(shell git describe`).FindSubmatch(makefile)
	if found == nil {
		t.Fatal("the Makefile has no go install that stamps the commit")
	}
	const root, commit = "github.com/retrysafe/retrysafe", "0123abc-dirty"
	program := filepath.Join(t.TempDir(), "retrysafe")
	// As clitest.Main builds it, so that only the linker has work to do.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program,
		"-ldflags", "-X "+root+string(found[1])+"="+commit, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	version, err := exec.CommandContext(t.Context(), program, "version").Output()
	clitest.Must(t, err)
	clitest.WantText(t, "retrysafe version", string(version), commit)
}
