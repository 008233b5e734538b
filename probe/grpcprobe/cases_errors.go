package grpcprobe

import (
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/probe"
)

func errorsAgain(t *trial) {
	if v := t.Recipe.Variants.Failing; v != nil {
		t.failingAgain(t.Keyed(t.From(*v, t.Intent()), t.NewKey()))
	}
	if v := t.Recipe.Variants.Broken; v != nil && t.Clean() {
		t.brokenAgain(t.Keyed(t.From(*v, t.Intent()), t.NewKey()))
	}
}

// brokenAgain makes a call that ends with an error of the server's twice.
func (t *trial) brokenAgain(r probe.Request) {
	first := t.Send("broken", r)
	if first.Status == 0 || first.OK() {
		t.Brokenf("variants.broken (%d) is to end with an error of the server's: %s", first.No, said(first))
		return
	}
	before, err := t.Effects(0, first)
	if err != nil {
		t.Brokenf("the effects could not be counted: %v", err)
		return
	}
	again := t.Send("retry", r)
	after, err := t.Effects(before, again)
	if err != nil {
		t.Brokenf("the effects could not be counted: %v", err)
		return
	}
	t.judgeBroken(first, again, before, after)
}

func (t *trial) judgeBroken(first, again probe.Answer, before, after int) {
	class := t.classOf(first, again, before, after)
	t.Observe(func(o *probe.Observed) { o.ServerErrors = class })
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) after %s got %s", again.No, first.Code, said(again))
	case before > 0 && after > before:
		t.Failf("the call (%d) had an effect and ended with %s; the retry (%d) had another one: %s, want %d", first.No, first.Code, again.No, things(after), before)
	case class == "stored" && nothingHappened(codeOf(first)):
		t.Failf("%s (%d) says that nothing happened, and yet the retry (%d) gets it from the shelf: the call cannot be made any more", first.Code, first.No, again.No)
	default:
		t.Infof("after %s the key is: %s", first.Code, class)
	}
}

// classOf says what became of the key after an error.
func (t *trial) classOf(first, again probe.Answer, before, after int) string {
	marked := t.rules.Marker != "" && again.Header.Get(t.rules.Marker) != ""
	switch {
	case marked, before > 0 && after == before && again.Code == first.Code && unclear(codeOf(first)):
		return "stored"
	case again.Code != first.Code || after > before:
		return "released"
	}
	return "unknown"
}

// failingAgain makes a call twice that is refused for a business reason. Nothing has changed, so it must not succeed.
func (t *trial) failingAgain(r probe.Request) {
	first := t.Send("failing", r)
	if first.Status == 0 || first.OK() {
		t.Brokenf("variants.failing (%d) is to be refused: %s", first.No, said(first))
		return
	}
	again := t.Send("retry", r)
	class := "unknown"
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) after %s got %s", again.No, first.Code, said(again))
	case again.OK():
		t.Failf("the call (%d) was refused with %s, and its retry (%d) succeeded, though nothing had changed", first.No, first.Code, again.No)
	case codeOf(again) != codeOf(first) && codeOf(again) != codes.Aborted:
		t.Failf("the call (%d) was refused with %s, its retry (%d) with %s: clients cannot tell what is true", first.No, first.Code, again.No, again.Code)
	case t.rules.Marker != "" && again.Header.Get(t.rules.Marker) != "":
		class = "stored"
	}
	t.Observe(func(o *probe.Observed) { o.ClientErrors = class })
	t.WantEffects(0, first, again)
}

func things(n int) string {
	if n == 1 {
		return "1 effect in all"
	}
	return strconv.Itoa(n) + " effects in all"
}
