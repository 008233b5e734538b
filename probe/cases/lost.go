package cases

import (
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// inWork returns a keyed request that takes its time if the recipe has one, and how long after sending it is running.
func inWork(t *run) (r wire.Request, midst time.Duration) {
	if slow := t.recipe.Variants.Slow; slow != nil {
		return t.NewFrom(*slow), midway
	}
	return t.New(), 10 * time.Millisecond
}

// cutInWork sends a request and cuts the connection while the request is running.
func cutInWork(t *run) wire.Request {
	r, midst := inWork(t)
	conn := t.start(r, 0)
	t.Pause(midst)
	t.record("connection cut while it runs", r, conn.Abort())
	return r
}

// clientAborts plays F07.
func clientAborts(t *run) {
	r := cutInWork(t)
	a, ok := result(t, "retry", r)
	if !ok {
		t.WantCount(1)
		return
	}
	wantReplay(t, a, t.Send("retry", r))
	wantOnlyOnce(t, a)
}

// answerLost plays F08. It disconnects after different times, since the moment between the work and the saving of its
// answer is short.
func answerLost(t *run) {
	var results []wire.Answer
	for _, after := range []time.Duration{
		0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
		30 * time.Millisecond,
	} {
		r := t.New()
		conn := t.start(r, 0)
		if after > 0 {
			t.Pause(after)
		}
		t.record("sent, then disconnected before the answer", r, conn.Leave())
		a, ok := result(t, "retry at once", r)
		if !ok || !wantReplay(t, a, t.Send("retry", r)) {
			return
		}
		results = append(results, a)
	}
	wantOnlyOnce(t, results...)
}

// impatientClient plays F09.
func impatientClient(t *run) {
	const retries, apart = 5, 50 * time.Millisecond
	r := cutInWork(t)
	answers := make([]wire.Answer, retries)
	var all sync.WaitGroup
	for i := range answers {
		t.Pause(apart)
		all.Go(func() { answers[i] = t.Send("impatient retry", r) })
	}
	all.Wait()
	done, _ := sortBurst(t, answers)
	if wantSameResult(t, done) && t.Clean() {
		a, ok := result(t, "retry", r)
		if ok && (len(done) == 0 || wantReplay(t, done[0], a)) {
			wantOnlyOnce(t, a)
			return
		}
	}
	t.WantCount(1)
}
