package child_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/bench/child"
)

// Seen to fail with the signal taken out of Stop: the program is then killed and cannot write its file.
func TestStopAsksTheProgramToEnd(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	cmd := exec.Command("sh", "-c", `trap 'echo yes > "$0"; exit' TERM; echo ready; while :; do sleep 0.05; done`, asked)
	out, in := io.Pipe()
	cmd.Stdout = in
	c, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(asked); err != nil {
		t.Errorf("the program was not asked: %v", err)
	}
}

func TestAProgramThatHasEndedCanBeStopped(t *testing.T) {
	c, err := child.Start(exec.Command("false"))
	if err != nil {
		t.Fatal(err)
	}
	<-c.Ended()
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}
