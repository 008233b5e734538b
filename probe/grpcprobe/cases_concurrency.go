package grpcprobe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

func twoAtOnce(t *trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	answers, ok := t.together(r, 2)
	if ok && t.judgeCrowd(answers) {
		t.WantEffects(1, answers...)
	}
	if t.Recipe.Variants.Slow != nil && t.Clean() {
		t.whileItRuns()
	}
}

func manyAtOnce(t *trial) {
	answers, ok := t.together(t.Keyed(t.Fresh(), t.NewKey()), t.Recipe.Limits.Burst)
	if ok && t.judgeCrowd(answers) {
		t.WantEffects(1, answers...)
	}
}

// together makes a call n times at once, over connections that are open when it begins.
func (t *trial) together(r probe.Request, n int) ([]probe.Answer, bool) {
	ctx, cancel := context.WithTimeout(t.Context(), t.Recipe.Limits.Timeout)
	defer cancel()
	defer t.client.close()
	if err := t.client.makeReady(ctx, n); err != nil {
		t.Brokenf("%d connections at once could not be opened: %v", n, err)
		return nil, false
	}
	answers := make([]probe.Answer, n)
	start := make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			<-start
			answers[i] = t.Send("at once", r)
		})
	}
	close(start)
	done.Wait()
	return answers, true
}

// judgeCrowd looks at the answers to calls that were made at once, and reports whether one was carried out.
func (t *trial) judgeCrowd(answers []probe.Answer) bool {
	worked := slices.IndexFunc(answers, func(a probe.Answer) bool { return a.OK() })
	if worked < 0 {
		t.Brokenf("none of %d calls at once succeeded; the first got %s", len(answers), said(answers[0]))
		return false
	}
	refused := map[string]bool{} // codes that have been judged
	lost := 0
	for _, a := range answers {
		switch {
		case a.Status == 0:
			lost++
		case a.OK() && t.identity(a) != t.identity(answers[worked]):
			t.Failf("two of %d calls at once (%d, %d) show different things: both ran", len(answers), answers[worked].No, a.No)
			return true
		case !a.OK() && !refused[a.Code]:
			refused[a.Code] = true
			t.judgeInFlight(a)
		}
	}
	if lost > 0 {
		t.Warnf("%d of %d calls at once got no answer", lost, len(answers))
	}
	return true
}

// judgeInFlight looks at the code that says that a call is outstanding.
func (t *trial) judgeInFlight(a probe.Answer) {
	t.Observe(func(o *probe.Observed) { o.InFlight = int(codeOf(a)) })
	want := t.rules.inFlight
	switch {
	case len(want) == 0:
		t.Infof("a call that finds another one outstanding gets %s", a.Code)
	case !right(a, want):
		t.Failf("the call (%d) got %s; %s says that one is outstanding and that it can be made again", a.No, said(a), want)
	}
}

// midway is how long a slow call has been running when the next one is made.
const midway = 300 * time.Millisecond

// whileItRuns makes a call while a slow one with the same key runs, and again when it has ended.
func (t *trial) whileItRuns() {
	r := t.Keyed(t.From(*t.Recipe.Variants.Slow, t.Intent()), t.NewKey())
	slow := make(chan probe.Answer, 1)
	go func() { slow <- t.Send("slow", r) }()
	select {
	case <-time.After(midway):
	case first := <-slow:
		t.Infof("the slow variant (%d) takes less than %s", first.No, midway)
		return
	case <-t.Context().Done():
		<-slow
		return
	}
	second := t.Send("while it runs", r)
	first := <-slow
	if !first.OK() {
		t.Brokenf("the slow variant (%d) got %s", first.No, said(first))
		return
	}
	switch {
	case second.Status == 0:
		t.Failf("the call (%d) made while the first one ran got %s", second.No, said(second))
	case second.OK():
		t.Infof("a call that finds another one outstanding waits for its response")
		t.wantReplay(first, second)
	default:
		t.judgeInFlight(second)
		if right(second, t.rules.inFlight) {
			t.judgeHint(second)
		}
		// It must now get the response, not the error that was true a moment ago.
		t.wantReplay(first, t.Send("when it has ended", r))
	}
}

// judgeHint looks for what says when to try again.
func (t *trial) judgeHint(a probe.Answer) {
	hint := saysWhen(a)
	t.Observe(func(o *probe.Observed) { o.RetryAfter = &hint })
	if !hint && len(t.rules.inFlight) > 0 {
		t.Warnf("the error (%d) does not say when to try again: no RetryInfo, no grpc-retry-pushback-ms", a.No)
	}
}
