package cases

import (
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// crash plays F10. With a lease in the recipe, it waits half as long again as the lease for the key to be free, since
// clocks and sweepers may be late. Without one, nobody has promised a time, so a key that stays in flight is only a
// WARN.
func crash(t *run) {
	r, midst := inWork(t)
	conn := t.start(r, 0)
	t.Pause(midst)
	err := t.recipe.Hooks.Restart(t.Context())
	t.record("running when the target crashed", r, conn.Abort())
	if err != nil {
		t.Brokenf("hooks.restart: %v", err)
	}
	patience, lease := t.recipe.Limits.Wait, t.recipe.Lease
	if lease > 0 {
		patience = lease + lease/2 + time.Second
	}
	a := retryWhile(t, "retry after the crash", r, patience, away)
	switch {
	case a.OK() || refusedDuplicate(t, a):
		wantOnlyOnce(t, a)
		return
	case busy(t, a) && lease > 0:
		t.Failf("%s after the crash the key is still in flight (%d: %d): longer than the lease of %s", patience, a.No,
			a.Status,
			lease)
	case busy(t, a):
		t.Warnf("%s after the crash the key is still in flight (%d: %d). Add lease to the recipe to have this "+
			"judged", patience, a.No, a.Status)
	case a.Status == 0:
		t.Brokenf("%s after the crash the target does not answer: %v", patience, a.Err)
	case saysUnknown(a):
		if again := t.Send("retry", r); again.OK() {
			t.Failf("the outcome was reported as unknown (%d), but then the request got %d (%d)", a.No, again.Status, again.No)
		}
	default:
		t.Warnf("the retry (%d) got %d, which is neither the result nor says that the outcome is unknown: %s", a.No,
			a.Status, body(a))
	}
	wantAtMostOne(t)
}

// restart plays F11.
func restart(t *run) {
	r := t.New()
	first := t.First("first", r)
	if err := t.recipe.Hooks.Restart(t.Context()); err != nil {
		t.Brokenf("hooks.restart: %v", err)
	}
	a := retryWhile(t, "retry after the restart", r, t.recipe.Limits.Wait, away)
	if a.Status == 0 {
		t.Brokenf("%s after the restart the target does not answer: %v", t.recipe.Limits.Wait, a.Err)
	}
	wantReplay(t, first, a)
	t.WantEffects(1, first, a)
}

// storeDown plays F12. It counts effects while the store is down: a server may run the request and only then notice
// that it cannot save the answer. Afterwards the refused request must still be able to run.
func storeDown(t *run) {
	r := t.New()
	a := withoutStore(t, r)
	effects := 0
	if t.Counts() {
		effects = t.MustCount(0)
	}
	switch {
	case a.OK():
		t.Warnf("the request ran although the store was down (%d: %d), so a retry runs again",
			a.No, a.Status)
		return
	case effects > 0:
		t.Failf("the request ran although the store was down, and got %d (%d)", a.Status, a.No)
	case a.Status == 0:
		t.Warnf("while the store was down, the request got no answer (%d): %v", a.No, a.Err)
	case !a.ServerError():
		t.Warnf("while the store was down, the request got %d (%d), which clients do not take for an outage", a.Status, a.No)
	}
	// What was refused during the outage must be carried out after it.
	again := retryWhile(t, "retry when the store is back", r, t.recipe.Limits.Wait, func(t *run, a wire.Answer) bool {
		return unsettled(t, a) || a.Status == 0 || a.ServerError()
	})
	if !again.OK() {
		t.Failf("%s after the store came back, the request that was refused with %d (%d) still gets %d (%d): "+
			"the refusal was saved, or the key is blocked", t.recipe.Limits.Wait, a.Status, a.No, again.Status, again.No)
		return
	}
	t.WantEffects(1, again)
}

// withoutStore sends a request while the store is stopped, and makes sure that it is started again.
func withoutStore(t *run, r wire.Request) wire.Answer {
	hooks := t.recipe.Hooks
	defer func() {
		if !restore(t, "hooks.start_store", hooks.StartStore) {
			t.Stop()
		}
	}()
	if err := hooks.StopStore(t.Context()); err != nil {
		t.Brokenf("hooks.stop_store: %v", err)
	}
	return t.Send("while the store is down", r)
}
