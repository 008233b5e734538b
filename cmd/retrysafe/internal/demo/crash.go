package demo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

func killPlain(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-7", order: "A-7", amount: 4000})
	a.screen.say("The proxy dies while the charge is at the bank, and is started again. It finds the key claimed, and " +
		"no result. Was Alice charged? It cannot know, and this API would charge her again.")
	r, err := a.crash(ctx, c)
	if err != nil {
		return err
	}
	a.expect(r, http.StatusInternalServerError, refused)
	a.conclude("So it says that the outcome is unknown, and charges no customer twice. Every retry gets this answer " +
		"until an operator resolves the key: check at the API what happened, and record it with retrysafe keys " +
		"resolve (docs/outcome-unknown.md).")
	return nil
}

func killKeyed(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/v2/charges", customer: "alice", key: "A-8", order: "A-8", amount: 4500})
	a.screen.say("The way out, if the API knows keys: /v2/charges makes one charge per %s. The proxy is configured to "+
		"send one that is the same on every attempt, and so may send the request again after a crash (proxy.yaml).",
		chargeKeyHeader)
	r, err := a.crash(ctx, c)
	if err != nil {
		return err
	}
	a.expect(r, http.StatusCreated, executed)
	a.expectSame(r, a.ask(ctx, c))
	a.conclude("The second attempt sent the request to the API again, which knew the charge already.")
	return nil
}

// crash kills the proxy while the charge is at the bank, starts it again and lets the client retry.
func (a *act) crash(ctx context.Context, c charge) (reply, error) {
	cut, hang := context.WithCancel(ctx)
	defer hang()
	a.bank.held.Lock() // the answer does not come before the crash, however slow this process is
	goOn := sync.OnceFunc(a.bank.held.Unlock)
	defer goOn()
	answer := a.sendBehind(cut, c)
	if a.proxy == nil {
		a.screen.say("There is no proxy to kill: the client hangs up instead.")
		hang()
		a.screen.got(<-answer)
		goOn()
		return a.retry(ctx, c), nil
	}
	a.screen.line(a.screen.paint(cyan, fmt.Sprintf("    $ kill -9 %d", a.proxy.pid())))
	a.proxy.kill()
	a.screen.got(<-answer)
	goOn()
	began := time.Now()
	if err := a.proxy.start(ctx); err != nil {
		return reply{}, err
	}
	a.screen.say("It is back after %v, with the same files: process %d.",
		time.Since(began).Round(10*time.Millisecond), a.proxy.pid())
	return a.retry(ctx, c), nil
}
