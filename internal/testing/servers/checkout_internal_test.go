package servers

import (
	"os"
	"testing"
)

// Seen to fail with builtBy not compared: the program was built again; and with the run taken out of the comparison: it
// was not.
func TestACommandIsBuiltOncePerRun(t *testing.T) {
	t.Parallel()
	const pkg = "github.com/retrysafe/retrysafe/internal/testing/servers/install"
	program, err := build(pkg, "run 1 ")
	check(t, err)
	check(t, os.Remove(program))
	for _, c := range []struct {
		run   string
		again bool
	}{{"run 1 ", false}, {"run 2 ", true}} {
		_, err := build(pkg, c.run)
		check(t, err)
		if _, err := os.Stat(program); (err == nil) != c.again {
			t.Errorf("%s: built again: %t, want %t", c.run, err == nil, c.again)
		}
	}
}
