package retrysafe

import (
	"context"
	"testing"
	"time"
)

// Seen to fail with end not leaving the line: every context was kept until its time was up.
func TestEndedContextLeavesItsLine(t *testing.T) {
	l := newLine()
	c := lazyContext{parent: context.Background(), deadline: time.Now().Add(time.Hour), timeouts: l}
	c.Done()
	if l.ends.next == &l.ends {
		t.Fatal("the context waits in no line")
	}
	c.end(nil)
	if l.ends.next != &l.ends {
		t.Error("the context has ended and still waits")
	}
}
