package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const apiDownName = "The API is down"

// deliveryTimeout is how long the proxy may take until it has delivered what waits.
const deliveryTimeout = 15 * time.Second

// apiDown sends events while the API is down, each twice.
func apiDown(ctx context.Context, a *act) error {
	a.screen.say("The API is down, and a shop sends it three events, each twice, as senders of webhooks do. The proxy " +
		"stores them in its database, and acknowledges them (accept: inbox).")
	a.server.Close()
	for i := range 3 {
		name := fmt.Sprintf("E-%d", i+1)
		c := a.intend(charge{path: "/events", customer: "shop", key: name, order: name, amount: 700 + 100*i})
		a.expect(a.ask(ctx, c), http.StatusAccepted, accepted)
		a.expect(a.ask(ctx, c), http.StatusAccepted, accepted)
	}
	a.screen.say("The API is started again, and nobody sends an event again:")
	if err := a.restartAPI(); err != nil {
		return err
	}
	began := time.Now()
	for a.proxy != nil && time.Since(began) < deliveryTimeout && ctx.Err() == nil {
		rows, err := a.bank.ledger.rows(ctx)
		if err != nil {
			return err
		}
		if a.made(rows) >= len(a.intents) {
			a.conclude("The proxy has delivered each event, %v after the start of the API.",
				time.Since(began).Round(100*time.Millisecond))
			return nil
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil // the verdict says what is missing
}

// made counts the charges of the scene's intents.
func (a *act) made(rows []row) (sum int) {
	for _, c := range a.intents {
		n, _ := c.in(rows)
		sum += n
	}
	return sum
}
