package demo

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// act is one running scene: what was sent, what came back, and what should be in the ledger now.
type act struct {
	*stage

	mu    sync.Mutex       // guards count
	count [refused + 1]int // replies by kind

	intents []charge
	wrong   []string // answers that were not as they should be
}

// send sends the charge and counts the reply.
func (a *act) send(ctx context.Context, c charge) reply { return a.counted(a.client.send(ctx, c)) }

func (a *act) counted(r reply) reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[r.kind()]++
	return r
}

// intend notes that the charge should be in the ledger once, whatever happens.
func (a *act) intend(c charge) charge {
	a.intents = append(a.intents, c)
	return c
}

// ask sends the charge, and shows the request and the reply.
func (a *act) ask(ctx context.Context, c charge, notes ...string) reply {
	a.screen.sent(c, notes...)
	r := a.send(ctx, c)
	a.screen.got(r)
	return r
}

// mostRetries bounds how often a client retries, so that the demo ends.
const mostRetries = 10

// retry sends the charge, and again while the first request is in flight, after the time that the proxy asks for.
func (a *act) retry(ctx context.Context, c charge) reply {
	r := a.ask(ctx, c)
	for i := 0; i < mostRetries && r.inFlight() && ctx.Err() == nil; i++ {
		pause(ctx, r.retryAfter())
		r = a.ask(ctx, c, r.retryAfter().String()+" later")
	}
	return r
}

// expect notes an answer that is not as it should be.
func (a *act) expect(r reply, status int, k kind) {
	if r.err == nil && r.status == status && r.kind() == k {
		return
	}
	got := fmt.Sprintf("%d, %s", r.status, r.kind())
	if r.err != nil {
		got = "no answer: " + reason(r.err)
	}
	a.wrong = append(a.wrong, fmt.Sprintf("got %s; expected %d, %s", got, status, k))
}

// expectSame notes a replay that is not the first answer, byte for byte.
func (a *act) expectSame(first, again reply) {
	a.expect(again, first.status, replayed)
	if again.kind() == replayed && !bytes.Equal(first.body, again.body) {
		a.wrong = append(a.wrong, "the replay differs from the first answer")
	}
}

// conclude says what the scene has shown, unless an answer was wrong.
func (a *act) conclude(format string, args ...any) {
	if len(a.wrong) == 0 {
		a.screen.say(format, args...)
	}
}

// sendBehind sends the charge in the background and returns once it is at the bank. The reply comes through the
// channel.
func (a *act) sendBehind(ctx context.Context, c charge) <-chan reply {
	a.screen.sent(c)
	answer := make(chan reply, 1)
	go func() { answer <- a.send(ctx, c) }()
	select {
	case <-a.bank.arrival(c.order):
	case r := <-answer:
		a.wrong = append(a.wrong, "the charge did not reach the bank: "+r.summary())
		answer <- r
	}
	return answer
}

// sendAtOnce sends the charge n times at the same moment.
func (a *act) sendAtOnce(ctx context.Context, c charge, n int) []reply {
	replies := make([]reply, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() {
			<-start
			replies[i] = a.send(ctx, c)
		})
	}
	close(start)
	all.Wait()
	return replies
}

// String names the kind for people.
func (k kind) String() string {
	return [...]string{"lost", "executed", "accepted", "replayed", "refused"}[k]
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
