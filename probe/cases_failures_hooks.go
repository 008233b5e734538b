package probe

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// away reports an answer that a target gives, or does not, while it is down or starting.
func away(a Answer) bool {
	return oneOf(a.Status, []int{0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout})
}

// restarted runs the hook.
func (t *Trial) restarted() bool {
	err := t.Recipe.Hooks.Restart(t.ctx)
	if err != nil {
		t.Brokenf("hooks.restart: %v", err)
	}
	return err == nil
}

func crash(t *Trial) {
	r, midst := t.inWork()
	s, ok := t.begin(r, 0)
	if !ok {
		return
	}
	t.pause(midst)
	ok = t.restarted()
	t.record("being carried out when the target crashed", r, s.abort())
	if !ok {
		return
	}
	patience := t.Recipe.Limits.Wait
	if lease := t.Recipe.Lease; lease > 0 {
		patience = lease + lease/2 + time.Second
	}
	a := t.insist("retry after the crash", r, patience, func(a Answer) bool { return t.busy(a) || t.limited(a) || away(a) })
	t.afterCrash(r, a, patience)
}

// afterCrash judges what a retry is told in the end.
func (t *Trial) afterCrash(r Request, a Answer, patience time.Duration) {
	switch {
	case a.OK() || t.refusedDuplicate(a):
		t.onlyOnce(a)
		return
	case t.busy(a) && t.Recipe.Lease > 0:
		t.Failf("%s after the crash the key is still in flight (%d: %d): longer than the lease of %s", patience, a.No, a.Status, t.Recipe.Lease)
	case t.busy(a):
		t.Warnf("%s after the crash the key is still in flight (%d: %d). Say in the recipe how long the lease is, to have that judged", patience, a.No, a.Status)
	case a.Status == 0:
		t.Brokenf("%s after the crash the target does not answer: %v", patience, a.Err)
	case saysUnknown(a):
		again := t.Send("retry", r)
		if again.OK() {
			t.Failf("the outcome was unknown (%d), and then the request was answered with %d (%d)", a.No, again.Status, again.No)
		}
	default:
		t.Warnf("the retry (%d) got %d, which says neither the result nor that the outcome is unknown: %s", a.No, a.Status, trimmed(a.Body, 200))
	}
	t.atMostOne()
}

// saysUnknown reports an error that says that nobody knows whether the request was carried out.
func saysUnknown(a Answer) bool {
	text := strings.ToLower(a.Header.Get("Idempotency-Status") + " " + string(a.plain()))
	return strings.Contains(text, unknown) || strings.Contains(text, "not known")
}

func restart(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok || !t.restarted() {
		return
	}
	a := t.insist("retry after the restart", r, t.Recipe.Limits.Wait, func(a Answer) bool { return t.busy(a) || t.limited(a) || away(a) })
	if a.Status == 0 {
		t.Brokenf("%s after the restart the target does not answer: %v", t.Recipe.Limits.Wait, a.Err)
		return
	}
	t.wantReplay(first, a)
	t.WantEffects(1, first, a)
}

func storeDown(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	a, down := t.withoutStore(r)
	if !down {
		return
	}
	n := 0
	if t.Recipe.Count != nil {
		var err error
		if n, err = t.Effects(0); err != nil {
			t.Brokenf("the effects could not be counted: %v", err)
			return
		}
	}
	switch {
	case a.OK():
		t.Warnf("without its store the target carried the request out (%d: %d), unprotected: a retry does it again", a.No, a.Status)
		return
	case n > 0:
		t.Failf("without its store the target carried the request out, and then answered %d (%d)", a.Status, a.No)
	case a.Status == 0:
		t.Warnf("without its store the target gave no answer (%d): %v", a.No, a.Err)
	case !a.ServerError():
		t.Warnf("without its store the target answered %d (%d): clients do not take that for an outage", a.Status, a.No)
	}
	t.storeIsBack(r, a)
}

// withoutStore sends a request while the store is stopped, and sees to it that it is started again.
func (t *Trial) withoutStore(r Request) (a Answer, ok bool) {
	hooks := t.Recipe.Hooks
	if err := hooks.StopStore(t.ctx); err != nil {
		t.Brokenf("hooks.stop_store: %v", err)
	} else {
		a, ok = t.Send("while the store is down", r), true
	}
	// The target is to work again even if the run is being given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
	defer cancel()
	if err := hooks.StartStore(ctx); err != nil {
		t.Brokenf("hooks.start_store: %v", err)
		ok = false
	}
	return a, ok
}

// storeIsBack notes a FAIL unless what was refused during the outage is carried out after it.
func (t *Trial) storeIsBack(r Request, outage Answer) {
	a := t.insist("retry when the store is back", r, t.Recipe.Limits.Wait, func(a Answer) bool {
		return t.busy(a) || t.limited(a) || a.Status == 0 || a.ServerError()
	})
	if !a.OK() {
		t.Failf("%s after the store came back the request that was refused with %d (%d) still gets %d (%d): the refusal was kept, or the key is blocked",
			t.Recipe.Limits.Wait, outage.Status, outage.No, a.Status, a.No)
		return
	}
	t.WantEffects(1, a)
}
