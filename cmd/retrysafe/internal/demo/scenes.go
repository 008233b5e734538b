package demo

import (
	"context"
	"net/http"
	"slices"
)

// scene shows one thing that goes wrong.
type scene struct {
	name string // at most 24 columns
	play func(context.Context, *act) error
}

// scenes in the order in which they run.
func scenes() []scene {
	return []scene{
		{"Twenty clients at once", twentyAtOnce},
		{"Hang up, and come back", hangUp},
		{"The answer gets lost", loseAnswer},
		{"A retry after the answer", retryLater},
		{"Same key, another amount", changeAmount},
		{"Same key, another caller", otherCaller},
		{"kill -9 of the proxy", killPlain},
		{"kill -9, API knows keys", killKeyed},
		{apiDownName, apiDown},
	}
}

const twenty = 20

func twentyAtOnce(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-1", order: "A-1", amount: 1000})
	a.screen.say("A double click, a gateway that retries, a queue that delivers twice: the same request, twenty times " +
		"at the same moment.")
	a.screen.sent(c, "x 20")
	replies := a.sendAtOnce(ctx, c, twenty)
	waiting := a.showMany(replies)
	for i := 0; i < mostRetries && len(waiting) > 0 && ctx.Err() == nil; i++ {
		after := waiting[0].retryAfter()
		a.screen.say("%d of them are asked to retry. %v later they do:", len(waiting), after)
		pause(ctx, after)
		again := a.sendAtOnce(ctx, c, len(waiting))
		waiting = a.showMany(again)
		replies = append(replies, again...)
	}
	a.expectOneExecuted(replies)
	return nil
}

// showMany shows replies, counted by what they are, and returns those that ask for a retry.
func (a *act) showMany(replies []reply) (waiting []reply) {
	var byKind [refused + 1][]reply
	for _, r := range replies {
		byKind[r.kind()] = append(byKind[r.kind()], r)
		if r.inFlight() {
			waiting = append(waiting, r)
		}
	}
	for k, same := range byKind {
		if len(same) > 0 {
			a.screen.gotMany(len(same), same[0], noteOn(kind(k), same[0]))
		}
	}
	return waiting
}

func noteOn(k kind, r reply) string {
	switch k {
	case executed:
		return "from the API itself"
	case replayed:
		return "Idempotent-Replayed: true"
	}
	return r.summary() + "  Retry-After: " + r.header.Get("Retry-After")
}

// expectOneExecuted notes if not one answer of the twenty is the API's, and the others are its replays.
func (a *act) expectOneExecuted(replies []reply) {
	final := slices.DeleteFunc(slices.Clone(replies), reply.inFlight)
	first := max(0, slices.IndexFunc(final, func(r reply) bool { return r.kind() == executed }))
	for i, r := range final {
		if i == first {
			a.expect(r, http.StatusCreated, executed)
		} else {
			a.expectSame(final[first], r)
		}
	}
	a.conclude("All %d have the same answer, byte for byte.", len(final))
}

func hangUp(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-2", order: "A-2", amount: 1500})
	a.screen.say("Alice closes the app while the charge is at the bank, and opens it again.")
	hurried, hang := context.WithCancel(ctx)
	defer hang()
	answer := a.sendBehind(hurried, c)
	hang()
	a.screen.got(<-answer)
	a.expect(a.retry(ctx, c), http.StatusCreated, replayed)
	return nil
}

func loseAnswer(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-3", order: "A-3", amount: 2000})
	a.screen.say("The charge is made, but the connection breaks before Alice sees the answer.")
	a.screen.sent(c)
	a.screen.got(a.counted(a.client.sendAndLose(ctx, c)))
	a.expect(a.retry(ctx, c), http.StatusCreated, replayed)
	return nil
}

func retryLater(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-4", order: "A-4", amount: 2500})
	a.screen.say("Everything worked, but Alice presses Reload.")
	first := a.ask(ctx, c)
	a.expect(first, http.StatusCreated, executed)
	a.expectSame(first, a.retry(ctx, c))
	return nil
}

func changeAmount(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-5", order: "A-5", amount: 3000})
	a.screen.say("A bug uses one key for two requests: the second has another amount.")
	first := a.ask(ctx, c)
	a.expect(first, http.StatusCreated, executed)
	changed := c
	changed.amount = 9999
	a.expect(a.ask(ctx, changed), http.StatusUnprocessableEntity, refused)
	a.expectSame(first, a.retry(ctx, c))
	a.conclude("It was refused, and the first answer is still stored.")
	return nil
}

func otherCaller(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-6", order: "A-6", amount: 3500})
	bobs := c
	bobs.customer = "bob"
	a.intend(bobs)
	a.screen.say("Bob happens to use the same key as Alice, for the same request.")
	first := a.ask(ctx, c)
	a.expect(first, http.StatusCreated, executed)
	own := a.ask(ctx, bobs)
	a.expect(own, http.StatusCreated, executed)
	a.expectSame(own, a.retry(ctx, bobs))
	a.conclude("Callers are identified by their credential: Bob has paid for himself, and has not seen " +
		"Alice's answer.")
	return nil
}
