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
			Checks: "A retry shortly before the end of the retention still gets the first answer.",
			Why:    "A customer whose client retries within the promised time pays twice.",
			Fix:    "Start the retention when the operation ends, and delete the record only after it.",
			Source: draft + " §2.3", Needs: s.needs(shortRetention), Play: s.play(withinRetention),
		},
		{
			ID: "T02", Name: "after the retention", Severity: probe.Critical,
			Checks: "After the retention, a key is new or is refused as expired. Simultaneous retries run at " +
				"most once.",
			Why: "An expired record that still exists lets every retry run again, or blocks its key forever.",
			Fix: "Replace an expired record in the same atomic step that claims the key. Answer 412 to a " +
				"Repeatability-First-Sent from before the tracked window.",
			Source: draft + " §2.3; " + repeatable, Needs: s.needs(shortRetention), Play: s.play(afterRetention),
		},
		{
			ID: "T03", Name: "sliding retention", Severity: probe.Minor,
			Checks: "Recorded: whether a replay restarts the retention.",
			Source: "recorded for clients", Needs: s.needs(shortRetention), Play: s.play(slidingRetention),
		},
		{
			ID: "T04", Name: "published policy", Severity: probe.Minor, Draft: true,
			Checks: "The API publishes its rules, including how long it keeps keys.",
			Why:    "Clients do not know for how long they may retry.",
			Fix: "Publish a page that says which requests take a key and how long keys are kept. Name it as " +
				"policy_url in the recipe.",
			Source: draft + " §2.3, §2.5.2", Play: s.play(publishedPolicy),
		},
		{
			ID: "T05", Name: "first-sent dates", Severity: probe.Critical,
			Checks: "A Repeatability-First-Sent that is too old or not a date is refused, and nothing runs.",
			Why:    "A request from before the tracked window may have run already. If it runs now, it runs twice.",
			Fix: "Answer 412 to a date before the tracked window, and 400 to a value that is not a date. Send " +
				"Repeatability-Result: rejected with both.",
			Source:   repeatable + ", Repeatability-First-Sent",
			Profiles: s.profilesWith(hasFirstSent), Play: s.play(firstSentDates),
		},
		{
			ID: "T06", Name: "both headers", Severity: probe.Major,
			Checks: "A request with only one of Repeatability-Request-ID and Repeatability-First-Sent is refused " +
				"with 400.",
			Why:    "The client believes that it can retry safely, but its retry runs again.",
			Fix:    "Answer 400 with Repeatability-Result: rejected before the operation runs.",
			Source: repeatable, Profiles: s.profilesWith(hasFirstSent), Play: s.play(bothHeaders),
		},
		{
			ID: "T07", Name: "unsupported", Severity: probe.Major,
			Checks: "A route that does not support repeatable requests refuses them with 501.",
			Why:    "The client retries in good faith, and each retry runs again.",
			Fix:    "Answer 501 with Repeatability-Result: rejected before the operation runs.",
			Source: repeatable,
			Needs:  s.needs(unkeyed), Profiles: s.profilesWith(hasFirstSent), Play: s.play(unsupportedRoute),
		},
	}
}

// waitUntil waits for a time or for the end of the run.
func waitUntil(t *run, at time.Time) { t.Pause(time.Until(at)) }

// retentionEnd returns a time at which a retention has certainly ended. The tenth more allows for APIs whose clock goes
// in larger steps.
func retentionEnd(t *run, first wire.Answer) time.Time {
	return first.EndedAt.Add(t.recipe.Retention*11/10 + 100*time.Millisecond)
}

// showsSame reports whether an answer shows what the first one shows.
func showsSame(t *run, first, a wire.Answer) bool { return a.OK() && t.id(a) == t.id(first) }

// withinRetention plays T01. A retry counts only if its answer arrives before the retention can have ended. On a busy
// machine it may not, so the case tries three times.
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
	t.Skipf("no answer arrived before the retention of %v had ended: it is too short for this network",
		t.recipe.Retention)
}

// afterRetention plays T02. It sends several retries at once: if an expired record is replaced in two steps, two of
// them run.
func afterRetention(t *run) {
	r := t.New()
	first := t.First("first", r)
	waitUntil(t, retentionEnd(t, first))
	late := retriesAtOnce(t, r, 5)
	ran, refused := sortLate(t, first, late)
	if !t.Clean() {
		return
	}
	want := 1
	if ran.Status != 0 {
		want = 2
	}
	if got := t.MustCount(want, t.shown(append([]wire.Answer{first}, late...))...); got > want {
		t.Failf("%d simultaneous retries after the retention of %v: %s, want at most %d", len(late),
			t.recipe.Retention, probe.Amount(got), want)
		return
	}
	wantExpired(t, r, first, ran, refused)
}

// retriesAtOnce sends a request several times at once and returns the answers.
func retriesAtOnce(t *run, r wire.Request, n int) []wire.Answer {
	answers := make([]wire.Answer, n)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = t.Send("retry after the retention", r) })
	}
	all.Wait()
	return answers
}

// sortLate returns the answer of a retry that ran again, and that of one whose key was refused as expired; no answer if
// there is none. A conflict with another one of the retries is neither.
func sortLate(t *run, first wire.Answer, late []wire.Answer) (ran, refused wire.Answer) {
	for _, a := range late {
		switch {
		case !wantAnswer(t, "a retry after the retention", a) || showsSame(t, first, a):
		case a.OK():
			ran = a
		case !slices.Contains(t.rules.InFlight, a.Status) || slices.Contains(t.rules.Mismatch, a.Status):
			refused = a
		}
	}
	return ran, refused
}

// wantExpired judges what became of a key after its retention. Only a profile that refuses expired keys says what is
// right; elsewhere the case records what the API does.
func wantExpired(t *run, r wire.Request, first, ran, refused wire.Answer) {
	switch expired := t.rules.Expired; {
	case ran.Status != 0 && len(expired) > 0:
		t.Failf("a retry after the retention (%d) ran again with %d; profile %s refuses it with %s", ran.No, ran.Status,
			t.rules.Name, statuses(expired))
	case ran.Status != 0:
		t.Infof("after the retention of %v the request ran again (%d): the key had expired", t.recipe.Retention, ran.No)
		wantNewRecord(t, ran, r)
	case refused.Status != 0:
		t.Observe(func(o *probe.Observed) { o.Expired = refused.Status })
		if len(expired) > 0 {
			wantRefusal(t, "a retry after the retention", refused, expired)
			return
		}
		t.Infof("after the retention of %v the key is refused with %d (%d)", t.recipe.Retention, refused.Status, refused.No)
	case len(expired) > 0:
		t.Warnf("after the retention of %v the first answer (%d) is still replayed: the retention is longer "+
			"than the recipe declares",
			t.recipe.Retention, first.No)
	default:
		t.Infof("after the retention of %v the first answer (%d) is still replayed: it is kept longer than promised",
			t.recipe.Retention, first.No)
	}
}

// wantNewRecord notes a FAIL if a key that was used again after its retention is not remembered.
func wantNewRecord(t *run, ran wire.Answer, r wire.Request) {
	again := t.Send("retry with that key", r)
	if again.EndedAt.Sub(ran.SentAt) < t.recipe.Retention && !showsSame(t, ran, again) {
		t.Failf("the key was used again (%d), but a retry (%d) did not get that answer: %d %s", ran.No, again.No,
			again.Status, body(again))
	}
}

// slidingRetention plays T03. It retries one of two keys in the middle of the retention. If only that one is remembered
// at the end, the retention slides.
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
		t.Infof("both keys still have their answers after the retention of %v, so the case shows nothing", t.recipe.Retention)
		return
	}
	slides := showsSame(t, one, still)
	t.Observe(func(o *probe.Observed) { o.Sliding = seen(slides) })
	if slides {
		t.Infof("a replay (%d) restarts the retention (%d): a client that keeps retrying keeps its key",
			middle.No, still.No)
		return
	}
	t.Infof("a replay (%d) does not extend the retention (%d)", middle.No, still.No)
}
