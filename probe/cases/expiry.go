package cases

import (
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

const repeatable = "OASIS Repeatable Requests 1.0"

// expiry: how long a key is remembered, what comes then, and what the API says of it.
func expiry(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "T01", Name: "within the retention", Severity: probe.Critical,
			Checks: "Shortly before the retention ends a retry still gets the first answer.",
			Why:    "A client that retries within the time that it was promised pays twice.",
			Fix:    "Count the retention from when the work ends, and delete records only after it.",
			Source: draft + " §2.3", Needs: s.needs(shortRetention), Play: s.play(withinRetention),
		},
		{
			ID: "T02", Name: "after the retention", Severity: probe.Critical,
			Checks: "After the retention a key is new, or refused as expired; nothing in between.",
			Why: "A record that has expired and stands in the way lets each retry run again, or blocks its key for " +
				"good.",
			Fix: "Replace an expired record in the same atomic step that claims the key. Refuse a first-sent date " +
				"of before the tracked window with 412.",
			Source: draft + " §2.3; " + repeatable, Needs: s.needs(shortRetention), Play: s.play(afterRetention),
		},
		{
			ID: "T03", Name: "sliding retention", Severity: probe.Minor,
			Checks: "Whether a replay makes the retention begin anew.",
			Source: "recorded for clients", Needs: s.needs(shortRetention), Play: s.play(slidingRetention),
		},
		{
			ID: "T04", Name: "published policy", Severity: probe.Minor, Draft: true,
			Checks: "The API publishes its rules, and how long it keeps keys.",
			Why:    "Clients do not know how long they may retry.",
			Fix: "Publish a page that says which requests take a key and how long it is kept, and name it in the " +
				"recipe (policy_url).",
			Source: draft + " §2.3, §2.5.2", Play: s.play(publishedPolicy),
		},
		{
			ID: "T05", Name: "first-sent dates", Severity: probe.Critical,
			Checks: "A first-sent date that is too old or no date is refused, and nothing happens.",
			Why:    "A request of before the tracked window may have run already: to run it again is to run it twice.",
			Fix: "Refuse with 412 what was first sent before the tracked window, with 400 what is no date, both " +
				"with Repeatability-Result: rejected.",
			Source:   repeatable + ", Repeatability-First-Sent",
			Profiles: []string{"repeatability"}, Play: s.play(firstSentDates),
		},
		{
			ID: "T06", Name: "both headers", Severity: probe.Major,
			Checks: "A request with only one of the two headers is refused with 400.",
			Why:    "The client believes that its request can be repeated; it cannot.",
			Fix:    "Refuse it with 400 and Repeatability-Result: rejected before anything is done.",
			Source: repeatable, Profiles: []string{"repeatability"}, Play: s.play(bothHeaders),
		},
		{
			ID: "T07", Name: "unsupported", Severity: probe.Major,
			Checks: "Where requests cannot be repeated, one that asks for it is refused with 501.",
			Why:    "The client retries in good faith, and each retry runs.",
			Fix:    "Refuse it with 501 and Repeatability-Result: rejected before anything is done.",
			Source: repeatable,
			Needs:  s.needs(unkeyed), Profiles: []string{"repeatability"}, Play: s.play(unsupportedRoute),
		},
	}
}

// waitUntil waits for an instant or for the end of the run.
func waitUntil(t *run, at time.Time) { t.Pause(time.Until(at)) }

// retentionEnd is when a retention has ended for certain, though the clock of the API goes in larger steps.
func retentionEnd(t *run, first wire.Answer) time.Time {
	return first.EndedAt.Add(t.recipe.Retention*11/10 + 100*time.Millisecond)
}

// showsSame reports whether an answer shows what the first one shows.
func showsSame(t *run, first, a wire.Answer) bool { return a.OK() && t.id(a) == t.id(first) }

// withinRetention judges a retry only if its answer is back before the retention can have ended: on a machine that is
// too busy for that it tries again.
func withinRetention(t *run) {
	for range 3 {
		r := t.New()
		first := t.First("first", r)
		waitUntil(t, first.SentAt.Add(t.recipe.Retention*9/10))
		again := t.Send("retry at nine tenths of the retention", r)
		if again.EndedAt.Sub(first.SentAt) >= t.recipe.Retention {
			continue
		}
		if wantReplay(t, first, again) {
			t.Observe(func(o *probe.Observed) { o.RetryWithin = again.SentAt.Sub(first.EndedAt) })
		}
		return
	}
	t.Skipf("no answer came back before the retention of %v had ended: it is too short for this network",
		t.recipe.Retention)
}

// afterRetention sends several retries at once after the retention: when a record is replaced, two of them may run.
func afterRetention(t *run) {
	r := t.New()
	first := t.First("first", r)
	waitUntil(t, retentionEnd(t, first))
	late := make([]wire.Answer, 5)
	var all sync.WaitGroup
	for i := range late {
		all.Go(func() { late[i] = t.Send("retry after the retention", r) })
	}
	all.Wait()
	var ran, refused wire.Answer // of work that ran again, and one that refuses the key
	for _, a := range late {
		switch {
		case !wantAnswer(t, "a retry after the retention", a) || showsSame(t, first, a):
		case a.OK():
			ran = a
		case !slices.Contains(t.rules.InFlight, a.Status) || slices.Contains(t.rules.Mismatch, a.Status):
			refused = a // and is not just a conflict with another retry
		}
	}
	if !t.Clean() {
		return
	}
	want := 1
	if ran.Status != 0 {
		want = 2
	}
	if got := t.MustCount(want, t.shown(append([]wire.Answer{first}, late...))...); got > want {
		t.Failf("%d retries that were sent at once after the retention of %v: %s, want at most %d", len(late),
			t.recipe.Retention, probe.Amount(got), want)
		return
	}
	switch expired := t.rules.Expired; {
	case ran.Status != 0 && len(expired) > 0:
		t.Failf("a retry after the retention (%d) ran again with %d; profile %s refuses it with %s", ran.No, ran.Status,
			t.rules.Name, statuses(expired))
	case ran.Status != 0:
		t.Infof("after the retention of %v the request ran again (%d): the key was forgotten", t.recipe.Retention, ran.No)
		wantNewRecord(t, ran, r)
	case refused.Status != 0:
		t.Observe(func(o *probe.Observed) { o.Expired = refused.Status })
		if len(expired) > 0 {
			wantRefusal(t, "a retry after the retention", refused, expired)
			return
		}
		t.Infof("after the retention of %v the key is refused with %d (%d)", t.recipe.Retention, refused.Status, refused.No)
	case len(expired) > 0:
		t.Warnf("after the retention of %v the first answer (%d) is still replayed: the retention is longer than the "+
			"recipe says",
			t.recipe.Retention, first.No)
	default:
		t.Infof("after the retention of %v the first answer (%d) is still replayed: it is kept longer than promised",
			t.recipe.Retention, first.No)
	}
}

// wantNewRecord notes a FAIL if a key that was used anew is not remembered.
func wantNewRecord(t *run, ran wire.Answer, r wire.Request) {
	again := t.Send("retry of that", r)
	if again.EndedAt.Sub(ran.SentAt) < t.recipe.Retention && !showsSame(t, ran, again) {
		t.Failf("the key was used anew (%d), and its retry (%d) did not get that answer but %d: %s", ran.No, again.No,
			again.Status, body(again))
	}
}

// slidingRetention retries one of two keys in the middle of the retention: if only that one is remembered at the end,
// the retention slides.
func slidingRetention(t *run) {
	if !t.rules.Replays {
		t.Skipf("profile %s has no replays", t.rules.Name)
	}
	touched, control := t.New(), t.New()
	one, other := t.First("one key", touched), t.First("another key", control)
	waitUntil(t, one.SentAt.Add(t.recipe.Retention*7/10))
	middle := t.Send("retry of one key", touched)
	waitUntil(t, retentionEnd(t, other))
	still, gone := t.Send("retry of one key after its retention", touched), t.Send("retry of the other", control)
	if !showsSame(t, one, middle) || still.EndedAt.Sub(middle.SentAt) >= t.recipe.Retention {
		t.Skipf("the retry in the middle of the retention (%d) was not replayed, or came too late", middle.No)
	}
	if showsSame(t, other, gone) {
		t.Infof("both keys are still remembered after the retention of %v, so this cannot be observed", t.recipe.Retention)
		return
	}
	slides := showsSame(t, one, still)
	t.Observe(func(o *probe.Observed) { o.Sliding = seen(slides) })
	if slides {
		t.Infof("a replay (%d) makes the retention begin anew (%d): a client that keeps retrying keeps its key",
			middle.No, still.No)
		return
	}
	t.Infof("a replay (%d) does not make the retention longer (%d)", middle.No, still.No)
}
