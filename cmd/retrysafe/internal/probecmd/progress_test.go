package probecmd

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/probe"
)

// On a terminal a line is written over; elsewhere each group has one.
func TestProgress(t *testing.T) {
	play := func(terminal bool) string {
		var b strings.Builder
		p := newProgress(&b, terminal)
		for i, id := range []string{"B01", "B02", "M01"} {
			c := probe.Case{ID: id, Name: "name"}
			p.tell(c, i, 3, nil)
			p.tell(c, i+1, 3, &probe.Outcome{ID: id, Verdict: probe.Pass})
		}
		p.end()
		return b.String()
	}
	clitest.Want(t, "in a file", play(false), "B Basics: 2 PASS\nM Mismatch: 1 PASS\n")
	clitest.Want(t, "on a terminal", play(true),
		"\r\033[K  0 of 3  B01 name\r\033[K  1 of 3  B02 name\r\033[K  2 of 3  M01 name\r\033[K")
}
