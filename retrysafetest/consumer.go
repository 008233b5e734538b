package retrysafetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// ConsumerSubject describes a handler of messages to CheckConsumer. All fields are required.
type ConsumerSubject struct {
	// Guard that the Consumer was made with. Its store is a Store of this package.
	Guard    *retrysafe.Guard
	Consumer *queuesafe.Consumer
	Handler  queuesafe.Handler
	// NewMessage returns a message that can be processed, with key where the Consumer's KeyFunc looks for it. Two
	// messages for one key are equal. CheckConsumer calls it in the test's goroutine, and counts the deliveries itself.
	NewMessage func(key string) queuesafe.Message
	// Effects counts what must happen once for each key. CheckConsumer takes differences.
	Effects func() int
}

// errConnection is what a commit returns that CheckConsumer lets fail.
var errConnection = errors.New("retrysafetest: the connection to the database was lost")

// CheckConsumer delivers messages to a handler and fails the test if one has its effect twice or is lost, in this order:
//
//   - a message with a new key has one effect, and is acknowledged
//   - delivered three times more, and ten times at once, it has none
//   - a message whose commit (InTx) fails once, as when a connection is lost, is delivered again and has one effect; it
//     does not become a dead letter
//   - killed at each place where a process may die (Store.KillAt), and delivered again: no second effect. The message is
//     acknowledged, unless the policy for abandoned keys is Refuse or Reconcile
//   - paused at each of these places until the lease is lost and another delivery was handled (Store.PauseAt): no second
//     effect
//
// Like Check, it stops at the first check that fails, runs in process, and never sleeps.
func CheckConsumer(t testing.TB, s ConsumerSubject) {
	t.Helper()
	if s.Consumer == nil || s.Handler == nil || s.NewMessage == nil {
		t.Error("retrysafetest: ConsumerSubject needs Guard, Consumer, Handler, NewMessage and Effects")
		return
	}
	c := &checker{TB: t, Subject: s.asSubject()}
	if !c.complete() {
		return
	}
	c.run(c.first, c.retries, c.atOnce, c.transient, c.killed, c.paused)
}

// asSubject has messages delivered by requests: the status says whether the message was acknowledged, the body which
// Action was chosen.
func (s ConsumerSubject) asSubject() Subject {
	type messageKey struct{}
	return Subject{
		Guard: s.Guard, Effects: s.Effects,
		NewRequest: func(key string) *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			return r.WithContext(context.WithValue(r.Context(), messageKey{}, s.NewMessage(key)))
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m, _ := r.Context().Value(messageKey{}).(queuesafe.Message)
			m.Delivery = 1
			d := s.Consumer.Handle(r.Context(), m, s.Handler)
			if d.Action != queuesafe.Ack {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, d.Action)
			if d.Err != nil {
				fmt.Fprintf(w, " (%v): %v", d.Situation, d.Err)
			}
		}),
	}
}

// transient checks that a message is not lost because of a fault that passes.
func (c *checker) transient() (fault string) {
	key, before := newKey(), c.Effects()
	c.store.failCommit(errConnection)
	first := c.post(key)
	if !c.store.commitFailed() {
		return "" // the handler has no InTx
	}
	settled := c.post(key)
	if n := c.Effects() - before; n != 1 || !settled.ok() {
		return fmt.Sprintf("a commit failed once, as when the connection to the database is lost: the message was %v, then "+
			"%v, and has %d effects, want 1. The policy for abandoned keys is %s. Choose RerunTx if all effects are in the "+
			"InTx, or mark errors after which nothing has happened with retrysafe.Retryable.", first, settled, n,
			c.Guard.Policy().OnAbandoned)
	}
	return ""
}
