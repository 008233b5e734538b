package probe

import (
	"sync"
	"time"
)

// inWork is a keyed request that takes its time if the recipe has one, and how long after it was sent it is being carried out.
func (t *Trial) inWork() (r Request, midst time.Duration) {
	template, midst := t.Recipe.Request, 10*time.Millisecond
	if slow := t.Recipe.Variants.Slow; slow != nil {
		template, midst = *slow, midway
	}
	return t.Keyed(t.From(template, t.Intent()), t.NewKey()), midst
}

// cutOff sends a request and cuts the connection while it is being carried out.
func (t *Trial) cutOff(r Request, midst time.Duration) bool {
	s, ok := t.begin(r, 0)
	if !ok {
		return false
	}
	t.pause(midst)
	t.record("cut off while it is being carried out", r, s.abort())
	return true
}

func clientAborts(t *Trial) {
	r, midst := t.inWork()
	if !t.cutOff(r, midst) {
		return
	}
	a, ok := t.result("retry", r)
	if !ok {
		t.counted(1)
		return
	}
	t.wantReplay(a, t.Send("retry", r))
	t.onlyOnce(a)
}

// answerLost goes away at different moments: what is between the work and its record is short.
func answerLost(t *Trial) {
	var results []Answer
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
		r := t.Keyed(t.Fresh(), t.NewKey())
		s, ok := t.begin(r, 0)
		if !ok {
			return
		}
		if after > 0 {
			t.pause(after)
		}
		t.record("sent, and gone before the answer", r, s.leave())
		a, ok := t.result("retry at once", r)
		if !ok {
			return
		}
		if !t.wantReplay(a, t.Send("retry", r)) {
			return
		}
		results = append(results, a)
	}
	t.onlyOnce(results...)
}

func timeoutStorm(t *Trial) {
	const retries, apart = 5, 50 * time.Millisecond
	r, midst := t.inWork()
	if !t.cutOff(r, midst) {
		return
	}
	answers := make([]Answer, retries)
	var all sync.WaitGroup
	for i := range answers {
		t.pause(apart)
		all.Go(func() { answers[i] = t.Send("impatient retry", r) })
	}
	all.Wait()
	done, _ := t.sortBurst(answers)
	if !t.sameResult(done) || !t.Clean() {
		t.counted(1)
		return
	}
	a, ok := t.result("retry", r)
	if !ok || len(done) > 0 && !t.wantReplay(done[0], a) {
		t.counted(1)
		return
	}
	t.onlyOnce(a)
}
