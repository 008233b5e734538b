package inbox

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/outbox"
)

// deliveryLease is how long the requests wait that a process was delivering when it was killed. It is extended while they
// are being delivered.
const deliveryLease = 30 * time.Second

// Run delivers the requests of the inbox to h, which has the httpsafe.Middleware with this Inbox around the handler that
// does the work, or is a proxy.Proxy with such a route. Several processes may run at once, and each request goes to one of
// them. If the handler reads path values, h is or has the http.ServeMux that sets them. What verifies requests, or limits
// their age, stays outside of h: that was done when they were accepted. When ctx ends, Run lets the deliveries that are
// under way end, and returns ctx's error.
func (in *Inbox) Run(ctx context.Context, h http.Handler) error {
	relay := outbox.NewRelay(in.box, outbox.Each(in.o.Concurrency, func(ctx context.Context, m outbox.Delivery) error {
		return deliver(ctx, h, m)
	}), outbox.RelayOptions{
		Topic: in.topic, BySender: true, Lease: deliveryLease, Timeout: in.o.Timeout, Idle: in.o.Idle,
		FirstDelay: in.o.FirstDelay, MaxDelay: in.o.MaxDelay,
		MaxTries: in.o.Attempts, MaxAge: in.o.For, Retention: in.o.Retention, Circuit: in.o.Circuit,
		AsyncMarks: true, // a request that is delivered again has a key that has ended
		Observer:   in.o.Observer,
	})
	in.mu.Lock()
	in.relays[relay] = true
	in.mu.Unlock()
	defer func() {
		in.mu.Lock()
		delete(in.relays, relay)
		in.mu.Unlock()
	}()
	return relay.Run(ctx)
}

// wake tells the deliveries of this process that a request has come.
func (in *Inbox) wake() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for relay := range in.relays {
		relay.Wake()
	}
}

// deliver sends one request to the handler, and says what becomes of its message.
func deliver(ctx context.Context, h http.Handler, m outbox.Delivery) (err error) {
	r, d, err := request(ctx, m)
	if err != nil {
		return outbox.Permanent(err)
	}
	w := &response{header: http.Header{}}
	defer func() {
		p := recover() // as a server would; the guard has noted what it means for the key
		if p == nil {
			return
		}
		err = errPanicked
		if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			log.Printf("inbox: panic delivering: %v\n%s", p, debug.Stack())
		}
	}()
	h.ServeHTTP(w, r)
	return judge(d, w)
}

// errPanicked is kept with the request, so it does not hold the panic's value. That may hold a secret, and is for the
// log of the process, as with net/http.
var errPanicked = errors.New("inbox: the handler panicked")

// judge says what becomes of a message after its request was answered.
func judge(d *httpsafe.Delivery, w *response) error {
	err := fmt.Errorf("inbox: the answer was %d", w.status)
	if after := w.retryAfter(); after > 0 {
		err = outbox.RetryAfter(err, after)
	}
	a := d.Advice
	switch a.Situation {
	case 0: // it was refused before the key was claimed
		if w.status >= 500 || w.status == http.StatusTooManyRequests {
			return unlessSeen(d, outbox.Untried(err))
		}
		return outbox.Permanent(err)
	case retrysafe.SituationProcessed, retrysafe.SituationReplayed, retrysafe.SituationUnprotected,
		retrysafe.SituationUnsaved, retrysafe.SituationNotReplayable:
		if d.Status >= 300 {
			return outbox.Permanent(fmt.Errorf("inbox: the answer was %d", d.Status))
		}
		return nil
	case retrysafe.SituationInFlight, retrysafe.SituationCanceled:
		// If its process is killed, the record of that attempt expires, as that of a delivery does.
		return outbox.Unseen(outbox.Postponed(fmt.Errorf("inbox: %s", a.Situation), max(a.RetryAfter, time.Second)))
	case retrysafe.SituationStoreUnavailable, retrysafe.SituationShuttingDown:
		err := outbox.RetryAfter(fmt.Errorf("inbox: %s", a.Situation), max(a.RetryAfter, time.Second))
		return unlessSeen(d, outbox.Untried(err))
	case retrysafe.SituationReleased:
		if d.NotSent {
			return outbox.Untried(outbox.RetryAfter(fmt.Errorf("inbox: the service cannot be reached"), time.Second))
		}
		return err
	case retrysafe.SituationOutcomeUnknown:
		if a.Retryable {
			return err
		}
		return outbox.Permanent(fmt.Errorf("inbox: the outcome is unknown: decide the key, and deliver the request again if it " +
			"was not executed"))
	case retrysafe.SituationKeyTooOld:
		return outbox.Permanent(errors.New("inbox: a delivery was not seen to end, and the record of its key may have " +
			"expired: find out whether the request was executed, and deliver it again if it was not"))
	case retrysafe.SituationNotSupported:
		return outbox.Postponed(errors.New("inbox: the route that the request has now has no inbox, and was not asked: let it "+
			"accept into an inbox again"), 5*time.Second)
	}
	return outbox.Permanent(fmt.Errorf("inbox: %s: the answer was %d", a.Situation, w.status))
}

// unlessSeen marks the error of a delivery that has not looked for the key: what became of the one before stays
// unknown, if it was.
func unlessSeen(d *httpsafe.Delivery, err error) error {
	if d.Unended > 0 {
		return outbox.Unseen(err)
	}
	return err
}

// response is where a handler writes its answer, of which only the status and the header are kept.
type response struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

// retryAfter returns how long the answer asks to wait.
func (w *response) retryAfter() time.Duration { return retry.After(w.header, time.Now()) }
