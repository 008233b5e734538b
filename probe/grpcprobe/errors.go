package grpcprobe

import (
	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/probe"
)

// What becomes of a key after an error, as the observed profile has it.
const (
	stored   = "stored"
	released = "released"
	unknown  = "unknown"
)

// errorsAgain plays G07.
func errorsAgain(t *run) {
	if t.recipe.Failing != nil {
		failingAgain(t)
	}
	if t.recipe.Broken != nil && t.Clean() {
		brokenAgain(t)
	}
}

// failingAgain makes a call twice that is refused for a business reason. Nothing has changed, so it must not succeed.
func failingAgain(t *run) {
	c := t.new("failing")
	first := t.send("failing", c)
	if !first.ended || first.ok() {
		t.Brokenf("variants.failing (%d) was not refused, but the case needs a refusal: %s", first.no, first.text())
	}
	again := t.send("retry", c)
	fate := unknown
	switch {
	case !again.ended:
		t.Failf("the retry (%d) after %s got %s", again.no, nameOf(first.code), again.text())
	case again.ok():
		t.Failf("the call (%d) was refused with %s, but its retry (%d) succeeded, although nothing had changed", first.no,
			nameOf(first.code), again.no)
	case again.code != first.code && again.code != codes.Aborted:
		t.Failf("the call (%d) was refused with %s, its retry (%d) with %s: clients cannot know which is true", first.no,
			nameOf(first.code), again.no, nameOf(again.code))
	case marker(again.header, t.rules.marker) != "":
		fate = stored
	}
	t.Observe(func(o *probe.Observed) { o.ClientErrors = fate })
	t.wantEffects(0, first, again)
}

// brokenAgain makes a call that ends with an error of the server's twice.
func brokenAgain(t *run) {
	c := t.new("broken")
	first := t.send("broken", c)
	if !first.ended || first.ok() {
		t.Brokenf("variants.broken (%d) did not end with a server error, which the case needs: %s", first.no, first.text())
	}
	before := t.effects(0, first)
	again := t.send("retry", c)
	after := t.effects(before, again)
	marked := marker(again.header, t.rules.marker) != ""
	fate := unknown
	switch {
	case marked, before > 0 && after == before && again.ended && again.code == first.code && unclear(first.code):
		fate = stored
	case !again.ended || again.code != first.code || after > before:
		fate = released
	}
	t.Observe(func(o *probe.Observed) { o.ServerErrors = fate })
	switch {
	case !again.ended:
		t.Failf("the retry (%d) after %s got %s", again.no, nameOf(first.code), again.text())
	case before > 0 && after > before:
		t.Failf("the call (%d) had an effect and ended with %s; the retry (%d) had another one: %s in all, want %d", first.no,
			nameOf(first.code), again.no, probe.Amount(after), before)
	case fate == stored && nothingHappened(first.code):
		t.Failf("%s (%d) says that nothing happened, but it was saved: the retry (%d) gets it again, so the "+
			"call can never succeed",
			nameOf(first.code), first.no, again.no)
	default:
		t.Infof("after %s the key is %s", nameOf(first.code), fate)
	}
}
