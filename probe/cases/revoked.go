package cases

import (
	"context"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// otherCredential plays X07.
func otherCredential(t *run) {
	r := t.New()
	first := t.First("caller A", r)
	again := t.Send("caller A, retry with a later credential", r.As(t.recipe.AAgain))
	if slices.Contains([]int{401, 403}, again.Status) {
		t.Brokenf("credentials.a_again (%d) got %d: the recipe needs a valid credential of caller a", again.No, again.Status)
	}
	wantReplay(t, first, again)
	t.WantEffects(1, first, again)
}

// unknownCallers plays X08. Sharing is only a WARN, since a public API may intend it.
func unknownCallers(t *run) {
	r := anonymous(t, t.New())
	first := t.Send("without a credential", r)
	if !first.OK() {
		return
	}
	again := t.Send("another caller without a credential, the same key", r)
	if discloses(t, again, first) {
		t.Warnf("two callers without a credential (%d, %d) share a key: a caller that guesses it gets the "+
			"other's answer",
			first.No, again.No)
	}
}

// revokedMeanwhile plays X09. It revokes caller A's credential between a request and its retry. A request with a new
// key checks that the hook worked; otherwise the case would blame the API for the hook.
func revokedMeanwhile(t *run) {
	alike := t.alike()
	r, spare := t.Keyed(alike(), newKey(t)), t.Keyed(alike(), newKey(t))
	first := t.First("caller A", r)
	defer restore(t, "hooks.restore", t.recipe.Hooks.Restore)
	if err := t.recipe.Hooks.Revoke(t.Context()); err != nil {
		t.Brokenf("hooks.revoke: %v", err)
	}
	if fresh := t.Send("revoked, a new key", spare); fresh.OK() {
		t.Brokenf("after hooks.revoke the credential of caller a still works (%d: %d)", fresh.No, fresh.Status)
	}
	switch a := t.Send("revoked, retry", r); {
	case a.Status == 0:
		t.Brokenf("the retry (%d) got no answer: %v", a.No, a.Err)
	case discloses(t, a, first):
		t.Failf("the retry (%d) got the answer, although its credential had been revoked: %d %s", a.No, a.Status, body(a))
	default:
		wantSilentRefusal(t, "the retry", a)
	}
}

// restore runs the hook that makes the target work again, even if the run is being given up, and reports whether it
// did.
func restore(t *run, name string, hook func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	err := hook(ctx)
	if err != nil {
		t.Notef(probe.Broken, "%s: %v", name, err)
	}
	return err == nil
}
