package torture

import (
	"fmt"
	"strings"
	"testing"
)

// A long history in which two owners were given one key is cut down to the two claims, whatever else happened beside
// them.
//
// Seen to fail with minimise returning all answers, and with isWrong true.
func TestAHistoryIsMinimised(t *testing.T) {
	var events []event
	n := int64(0)
	call := func(e event) {
		e.Began, n = tick{N: n, At: n}, n+1
		e.Trying = true
		answer := e
		e.Answer, e.Fence = "", 0
		if e.Op != "claim" {
			e.Fence = answer.Fence
		}
		answer.Ended, answer.Trying = tick{N: n, At: n}, false
		n++
		events = append(events, e, answer)
	}
	claim := func(owner, answer string, fence int64) {
		call(event{Op: "claim", Owner: owner, Answer: answer, Fence: fence, FirstFence: fence, Same: true, Request: "r"})
	}
	claim("first", "acquired", 1000)
	for range 30 {
		call(event{Op: "extend", Owner: "first", Answer: "ok", Fence: 1000})
		claim("other", "in flight", 1000)
	}
	rules := rules{lease: 1_000_000, keep: 7_000_000}
	if wrong, sure := rules.judge(events); len(wrong) > 0 || !sure {
		t.Fatalf("a sound history: %v, sure %v", wrong, sure)
	}
	claim("second", "acquired", 2000)
	for i := range 20 {
		claim(fmt.Sprint("late ", i), "in flight", 2000)
	}
	answers := rules.minimise(events)
	drawn := draw(answers)
	if len(answers) > 3 || len(answers) == 0 || !strings.Contains(drawn, "claim by second: acquired, fence 2000") {
		t.Errorf("%d answers are left:\n%s", len(answers), drawn)
	}
}
