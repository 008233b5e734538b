package grpcprobe

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/probe"
)

// twoAtOnce plays G03. With a slow variant in the recipe, it also makes a call while another one is running.
func twoAtOnce(t *run) {
	wantOneEffect(t, 2)
	if t.recipe.Slow != nil && t.Clean() {
		callWhileRunning(t)
	}
}

// manyAtOnce plays G04.
func manyAtOnce(t *run) { wantOneEffect(t, t.recipe.Limits.Burst) }

// wantOneEffect makes a call n times at once, over connections that are open when it begins, and judges the replies.
func wantOneEffect(t *run, n int) {
	replies := together(t, t.new("call"), n)
	worked := slices.IndexFunc(replies, reply.ok)
	if worked < 0 {
		t.Brokenf("none of %d simultaneous calls succeeded; the first got %s", n, replies[0].text())
	}
	refused := map[codes.Code]bool{} // that have been judged
	lost := 0
	for _, a := range replies {
		switch {
		case !a.ended:
			lost++
		case a.ok() && t.id(a) != t.id(replies[worked]):
			t.Failf("two of %d simultaneous calls (%d, %d) show different things: both ran", n, replies[worked].no, a.no)
			t.wantEffects(1, replies...)
			return
		case !a.ok() && !refused[a.code]:
			refused[a.code] = true
			if a.code == codes.ResourceExhausted { // as a 429 is over HTTP
				t.Infof("some of %d simultaneous calls were refused because there were too many (%d): %s", n, a.no, a.text())
				continue
			}
			wantInFlight(t, a)
		}
	}
	if lost > 0 {
		t.Warnf("%d of %d simultaneous calls got no response", lost, n)
	}
	t.wantEffects(1, replies...)
}

// together makes a call n times at once. It ends the case if there are not that many connections.
func together(t *run, c call, n int) []reply {
	ctx, cancel := context.WithTimeout(t.Context(), t.recipe.Limits.Timeout)
	defer cancel()
	defer t.client.close()
	if err := t.client.makeReady(ctx, n); err != nil {
		t.Brokenf("%d connections at once could not be opened: %v", n, err)
	}
	replies := make([]reply, n)
	start := make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			<-start
			replies[i] = t.send("at once", c)
		})
	}
	close(start)
	done.Wait()
	return replies
}

// wantInFlight judges the code that says that a call is outstanding.
func wantInFlight(t *run, a reply) {
	t.Observe(func(o *probe.Observed) { o.InFlight = int(a.code) })
	switch want := t.rules.inFlight; {
	case len(want) == 0:
		t.Infof("a call with a key in flight gets %s", nameOf(a.code))
	case !right(a, want):
		t.Failf("the call (%d) got %s; %s says that the key is in flight and that the call can be retried", a.no, a.text(), want)
	}
}

const (
	// midway is how long the slow call has been running when the next one is made, and how long before its end that
	// must have been.
	midway = 300 * time.Millisecond
	// mostRounds is how often that is tried, each time with a new key.
	mostRounds = 3
)

// callWhileRunning makes a call while a slow one with the same key runs, and again when that has ended. On a slow
// machine the second call may arrive after the first has ended. That looks like a server that lets it wait, so such a
// response is believed only if it occurs again.
func callWhileRunning(t *run) {
	for round := 1; round <= mostRounds; round++ {
		c := t.new("slow")
		first, second, ran := meanwhile(t, c)
		if !ran {
			return
		}
		early := second.sentAt.Before(first.endedAt.Add(-midway))
		if !second.ok() || t.id(second) != t.id(first) || early && round > 1 {
			judgeMeanwhile(t, c, first, second)
			return
		}
	}
	t.Infof("the target is too slow: the second call did not arrive while the first one ran")
}

// meanwhile makes a call twice, the second time midway through the first. It returns false if there was no such moment.
func meanwhile(t *run, c call) (first, second reply, ran bool) {
	slow := make(chan reply, 1)
	go func() { slow <- t.send("slow", c) }()
	select {
	case <-time.After(midway):
	case first := <-slow:
		t.Infof("the slow variant (%d) takes less than %s", first.no, midway)
		return first, second, false
	case <-t.Context().Done():
		<-slow
		return first, second, false
	}
	second = t.send("while it runs", c)
	if first = <-slow; !first.ok() {
		t.Brokenf("the slow variant (%d) got %s", first.no, first.text())
	}
	return first, second, true
}

// judgeMeanwhile judges what a call got that was made while the first one ran.
func judgeMeanwhile(t *run, c call, first, second reply) {
	switch {
	case !second.ended:
		t.Failf("the call (%d) made while the first one ran got %s", second.no, second.text())
		return
	case second.ok():
		t.Infof("a call with a key in flight waits for the response")
		wantReplay(t, first, second)
		return
	}
	wantInFlight(t, second)
	if right(second, t.rules.inFlight) {
		hint := hasDelay(second)
		t.Observe(func(o *probe.Observed) { o.RetryAfter = &hint })
		if !hint && len(t.rules.inFlight) > 0 {
			t.Warnf("the error (%d) does not say when to retry: no RetryInfo, no grpc-retry-pushback-ms", second.no)
		}
	}
	// It must now get the response, not the error that was true a moment ago.
	wantReplay(t, first, t.send("when it has ended", c))
}
