package probe

import (
	"strings"
	"time"
)

const repeatable = "OASIS Repeatable Requests 1.0"

// expiry: how long a key is remembered, what comes then, and what the API says of it.
func expiry() []Case {
	return []Case{
		{
			ID: "T01", Name: "within the retention", Checks: "Shortly before the retention ends a retry still gets the first answer.",
			Source: draft + " §2.3", Severity: Critical, Needs: []Need{aShortRetention()},
			Why: "A client that retries within the time that it was promised pays twice.",
			Fix: "Count the retention from when the work ends, and delete records only after it.", run: withinRetention,
		},
		{
			ID: "T02", Name: "after the retention", Checks: "After the retention a key is new, or refused as expired; nothing in between.",
			Source: draft + " §2.3; " + repeatable, Severity: Critical, Needs: []Need{aShortRetention()},
			Why: "A record that has expired and stands in the way lets each retry run again, or blocks its key for good.",
			Fix: "Replace an expired record in the same atomic step that claims the key. Refuse a first-sent date of before the tracked window with 412.",
			run: afterRetention,
		},
		{
			ID: "T03", Name: "sliding retention", Checks: "Whether a replay makes the retention begin anew.", Source: "recorded for clients",
			Severity: Minor, Needs: []Need{aShortRetention()}, run: slidingRetention,
		},
		{
			ID: "T04", Name: "published policy", Checks: "The API publishes its rules, and how long it keeps keys.", Source: draft + " §2.3, §2.5.2",
			Severity: Minor, Draft: true, Why: "Clients do not know how long they may retry.",
			Fix: "Publish a page that says which requests take a key and how long it is kept, and name it in the recipe (policy_url).", run: publishedPolicy,
		},
		{
			ID: "T05", Name: "first-sent dates", Checks: "A first-sent date that is too old or no date is refused, and nothing happens.",
			Source: repeatable + ", Repeatability-First-Sent", Severity: Critical, Profiles: []string{"repeatability"},
			Why: "A request of before the tracked window may have run already: to run it again is to run it twice.",
			Fix: "Refuse with 412 what was first sent before the tracked window, with 400 what is no date, both with Repeatability-Result: rejected.",
			run: firstSentDates,
		},
		{
			ID: "T06", Name: "both headers", Checks: "A request with only one of the two headers is refused with 400.", Source: repeatable,
			Severity: Major, Profiles: []string{"repeatability"}, Why: "The client believes that its request can be repeated; it cannot.",
			Fix: "Refuse it with 400 and Repeatability-Result: rejected before anything is done.", run: bothHeaders,
		},
		{
			ID: "T07", Name: "unsupported", Checks: "Where requests cannot be repeated, one that asks for it is refused with 501.", Source: repeatable,
			Severity: Major, Profiles: []string{"repeatability"},
			Needs: []Need{needs("variants.unkeyed: a request to a path that does not support keys", func(r *Recipe) bool { return r.Variants.Unkeyed != nil })},
			Why:   "The client retries in good faith, and each retry runs.",
			Fix:   "Refuse it with 501 and Repeatability-Result: rejected before anything is done.", run: unsupportedRoute,
		},
	}
}

func aShortRetention() Need {
	return needs("a retention that is short enough to be waited for (retention, limits.wait)", func(r *Recipe) bool {
		return r.Retention > 0 && r.Retention <= r.Limits.Wait
	})
}

// waitUntil waits for an instant or for the end of the run.
func (t *Trial) waitUntil(at time.Time) {
	select {
	case <-time.After(time.Until(at)):
	case <-t.ctx.Done():
	}
}

// showsSame reports whether an answer shows what the first one shows.
func (t *Trial) showsSame(first, a Answer) bool {
	return a.OK() && t.Recipe.Identity.of(a) == t.Recipe.Identity.of(first)
}

// withinRetention judges a retry only if its answer is back before the retention can have ended: on a machine that is too busy
// for that it tries again.
func withinRetention(t *Trial) {
	for range 3 {
		r := t.Keyed(t.Fresh(), t.NewKey())
		first, ok := t.Works("first", r)
		if !ok {
			return
		}
		t.waitUntil(first.SentAt.Add(t.Recipe.Retention * 9 / 10))
		again := t.Send("retry at nine tenths of the retention", r)
		if again.EndedAt.Sub(first.SentAt) >= t.Recipe.Retention {
			continue
		}
		if t.wantReplay(first, again) {
			t.Observe(func(o *Observed) { o.RetryWithin = again.SentAt.Sub(first.EndedAt) })
		}
		return
	}
	t.NAf("no answer came back before the retention of %v had ended: it is too short for this network", t.Recipe.Retention)
}

// ended is when a retention has ended for certain, though the clock of the API goes in larger steps.
func (t *Trial) ended(first Answer) time.Time {
	return first.EndedAt.Add(t.Recipe.Retention*11/10 + 100*time.Millisecond)
}

// afterRetention sends several retries at once after the retention: the moment at which a record is replaced is when two of them may run.
func afterRetention(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	t.waitUntil(t.ended(first))
	late := t.lateRetries(r)
	ran, refused := t.sortLate(first, late)
	if !t.Clean() {
		return
	}
	want := 1
	if ran.Status != 0 {
		want = 2
	}
	answers := append([]Answer{first}, late...)
	if got, err := t.Effects(want, answers...); err != nil {
		t.Brokenf("the effects could not be counted: %v", err)
	} else if got > want {
		t.Failf("retries (%d to %d) that were sent at once after the retention of %v: %s, want at most %d", late[0].No, late[len(late)-1].No,
			t.Recipe.Retention, effects(got), want)
		return
	}
	t.judgeLate(first, ran, refused, r)
}

// lateRetries sends a request five times at once.
func (t *Trial) lateRetries(r Request) []Answer {
	const n = 5
	came := make(chan Answer, n)
	for range n {
		go func() { came <- t.Send("retry after the retention", r) }()
	}
	all := make([]Answer, n)
	for range n {
		a := <-came
		all[(a.No-2)%n] = a
	}
	return all
}

// sortLate finds an answer of work that ran again, and one that refuses the key. A conflict with another retry is neither.
func (t *Trial) sortLate(first Answer, late []Answer) (ran, refused Answer) {
	for _, a := range late {
		switch {
		case a.Status == 0:
			t.Failf("a retry after the retention (%d) got no answer: %v", a.No, a.Err)
		case a.ServerError():
			t.Failf("a retry after the retention (%d) got %d: %s", a.No, a.Status, trimmed(a.Body, 200))
		case t.showsSame(first, a):
		case a.OK():
			ran = a
		case !oneOf(a.Status, t.Rules.InFlight) || oneOf(a.Status, t.Rules.Mismatch):
			refused = a
		}
	}
	return ran, refused
}

// judgeLate judges or records what became of the key.
func (t *Trial) judgeLate(first, ran, refused Answer, r Request) {
	expired := t.Rules.Expired
	switch {
	case ran.Status != 0 && len(expired) > 0:
		t.Failf("a retry after the retention (%d) ran again with %d; profile %s refuses it with %s", ran.No, ran.Status, t.Rules.Name, statuses(expired))
	case ran.Status != 0:
		t.Infof("after the retention of %v the request ran again (%d): the key was forgotten", t.Recipe.Retention, ran.No)
		t.newRecordHolds(ran, r)
	case refused.Status != 0:
		t.judgeExpired(refused)
	case len(expired) > 0:
		t.Warnf("after the retention of %v the first answer (%d) is still replayed: the retention is longer than the recipe says", t.Recipe.Retention, first.No)
	default:
		t.Infof("after the retention of %v the first answer (%d) is still replayed: it is kept longer than promised", t.Recipe.Retention, first.No)
	}
}

func (t *Trial) judgeExpired(a Answer) {
	t.Observe(func(o *Observed) { o.Expired = a.Status })
	if len(t.Rules.Expired) == 0 {
		t.Infof("after the retention of %v the key is refused with %d (%d)", t.Recipe.Retention, a.Status, a.No)
		return
	}
	t.wantRefusal("a retry after the retention", a, t.Rules.Expired)
}

// newRecordHolds notes a FAIL if a key that was used anew is not remembered.
func (t *Trial) newRecordHolds(ran Answer, r Request) {
	again := t.Send("retry of that", r)
	if again.EndedAt.Sub(ran.SentAt) < t.Recipe.Retention && !t.showsSame(ran, again) {
		t.Failf("the key was used anew (%d), and its retry (%d) did not get that answer but %d: %s", ran.No, again.No, again.Status, trimmed(again.Body, 200))
	}
}

// wantRefusal notes a FAIL unless a request was refused with one of the statuses, in the profile's words.
func (t *Trial) wantRefusal(what string, a Answer, want []int) bool {
	switch {
	case a.Status == 0:
		t.Failf("%s (%d) got no answer: %v", what, a.No, a.Err)
	case a.OK():
		t.Failf("%s (%d) was carried out: %d, want %s", what, a.No, a.Status, statuses(want))
	case !oneOf(a.Status, want):
		t.Failf("%s (%d) got %d, want %s", what, a.No, a.Status, statuses(want))
	case t.Rules.RefusalValue != "" && !strings.EqualFold(a.Header.Get(t.Rules.Marker), t.Rules.RefusalValue):
		t.Failf("%s (%d) got %d without %s: %s", what, a.No, a.Status, t.Rules.Marker, t.Rules.RefusalValue)
	default:
		return true
	}
	return false
}

// slidingRetention retries one of two keys in the middle of the retention: if that one alone is remembered at the end, the retention slides.
func slidingRetention(t *Trial) {
	if !t.Rules.Replays {
		t.NAf("profile %s has no replays", t.Rules.Name)
		return
	}
	touched, control := t.Keyed(t.Fresh(), t.NewKey()), t.Keyed(t.Fresh(), t.NewKey())
	one, ok := t.Works("one key", touched)
	if !ok {
		return
	}
	other, ok := t.Works("another key", control)
	if !ok {
		return
	}
	t.waitUntil(one.SentAt.Add(t.Recipe.Retention * 7 / 10))
	middle := t.Send("retry of one key", touched)
	t.waitUntil(t.ended(other))
	still, gone := t.Send("retry of one key after its retention", touched), t.Send("retry of the other", control)
	switch {
	case !t.showsSame(one, middle) || still.EndedAt.Sub(middle.SentAt) >= t.Recipe.Retention:
		t.NAf("the retry in the middle of the retention (%d) was not replayed, or came too late", middle.No)
	case t.showsSame(other, gone):
		t.Infof("both keys are still remembered after the retention of %v, so nobody can tell", t.Recipe.Retention)
	default:
		t.recordSliding(t.showsSame(one, still), middle, still)
	}
}

func (t *Trial) recordSliding(slides bool, middle, still Answer) {
	t.Observe(func(o *Observed) { o.Sliding = seen(slides) })
	if slides {
		t.Infof("a replay (%d) makes the retention begin anew (%d): a client that keeps retrying keeps its key", middle.No, still.No)
		return
	}
	t.Infof("a replay (%d) does not make the retention longer (%d)", middle.No, still.No)
}
