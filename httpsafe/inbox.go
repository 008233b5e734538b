package httpsafe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Inbox keeps requests that are acknowledged before they run: see [Options.Inbox]. Package inbox has one that is a table
// in a database. Its methods are called concurrently.
type Inbox interface {
	// Accept saves a request. It returns when the request cannot be lost any more, also if the same one was saved before;
	// then fresh is false. The error is retrysafe.ErrMismatch if another request has the key, or a *Problem, which is the
	// refusal. After any other error the client gets 503 and is told to retry, because the request may have been saved.
	Accept(ctx context.Context, a *Accepted) (fresh bool, err error)
	// Waiting returns what is known of a request that was accepted and has not been delivered, by the digest of its key.
	// ok is false if there is none.
	Waiting(ctx context.Context, d retrysafe.Digest) (s WaitingRequest, ok bool, err error)
	// Problems returns the refusals that Accept has, for the policy page.
	Problems() []Problem
}

// Accepted is a request for an Inbox.
type Accepted struct {
	Key         retrysafe.Key
	Fingerprint retrysafe.Fingerprint
	// Kept is how long the record of the key is kept at least after the end of the work, by the Guard's present Policy.
	Kept time.Duration
	// Request is the request without its body. It must be neither changed nor kept, and nor must Body.
	Request *http.Request
	Body    []byte
}

// WaitingRequest is what is known of a request in an Inbox that has not been delivered.
type WaitingRequest struct {
	// Scope is that of the key.
	Scope string
	// Tries is the number of deliveries that have begun.
	Tries int
	// In is the time until the next one; 0 if one is due or under way.
	In time.Duration
	// GivenUp says that it is not tried any more, and waits for a person.
	GivenUp bool
}

// Delivery is a request of an Inbox on its way to the handler.
type Delivery struct {
	// Key is the key under which the request was accepted.
	Key retrysafe.Key
	// Unended is how long ago the delivery before this one ended at the latest, if the Inbox does not know what became of
	// it, because its process was killed, for example. Otherwise it is 0.
	Unended time.Duration
	// Kept is that of Accepted, if the Inbox knows it: the record of the delivery before this one may be of that time.
	Kept time.Duration
	// Advice says what became of the request, after the handler has returned. It is zero if the request was refused
	// before its key was claimed. It is that of retrysafe.SituationKeyTooOld if the delivery before this one was not seen
	// to end, and so long ago that its record may have expired: then nothing runs.
	Advice retrysafe.Advice
	// Status is that of the answer which is kept under the key, or was until it was dropped; 0 if there is none. What the
	// handler has written may be something else: a replay is refused while there is no memory for it, or as the Profile
	// says.
	Status int
	// NotSent is set by a handler that could not reach the service which does the work: nothing was sent.
	NotSent bool
}

// AcceptedHeader says, in a delivered request, when it was accepted, as in RFC 3339. A proxy.Proxy takes it from clients.
const AcceptedHeader = "Retrysafe-Accepted"

// InboxAnswer is the answer to a request that an Inbox has accepted. A repetition gets the same. It has the Location of the
// status whatever its status code is. InboxAnswer{} is 202 with the state and that address in JSON.
type InboxAnswer struct {
	// Status is from 200 to 299. Default 202.
	Status int
	// Body is the body as it is, of up to 16 KiB. It must be empty with status 204 and 205. Default: empty.
	Body string
	// ContentType is the type of Body. Default: "application/json" if it is JSON, "text/plain; charset=utf-8" otherwise.
	ContentType string
}

const maxInboxAnswer = 16 << 10

// Validate returns an error if there can be no such answer.
func (a InboxAnswer) Validate() error {
	hasNoBody := a.Status == http.StatusNoContent || a.Status == http.StatusResetContent
	switch _, _, err := mime.ParseMediaType(a.ContentType); {
	case a.Status != 0 && (a.Status < 200 || a.Status > 299):
		return fmt.Errorf("status %d does not say that the request was accepted: use one from 200 to 299", a.Status)
	case hasNoBody && (a.Body != "" || a.ContentType != ""):
		return fmt.Errorf("an answer with status %d has no body: leave body and content type out, or use 200", a.Status)
	case len(a.Body) > maxInboxAnswer:
		return fmt.Errorf("the body has %d bytes: at most %d are possible", len(a.Body), maxInboxAnswer)
	case a.ContentType != "" && a.Body == "":
		return errors.New("there is a content type and no body")
	case a.ContentType != "" && err != nil:
		return fmt.Errorf("the content type %q is none: %w", a.ContentType, err)
	}
	return nil
}

// write sends the answer.
func (a InboxAnswer) write(w http.ResponseWriter) {
	h := w.Header()
	if a.Body != "" {
		if a.ContentType == "" && json.Valid([]byte(a.Body)) {
			a.ContentType = jsonType
		}
		h.Set("Content-Type", cmp.Or(a.ContentType, "text/plain; charset=utf-8"))
	}
	h.Set("Cache-Control", "no-store")
	status := cmp.Or(a.Status, http.StatusAccepted)
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(status)
	w.Write([]byte(a.Body))
}

type deliveryKey struct{}

// WithDelivery returns the context of a request that d delivers. The Middleware takes the key from d, and asks neither
// the request for it nor Options.Inbox, QuotaFunc and the ScopeFunc: all that was done when the request was accepted.
func WithDelivery(ctx context.Context, d *Delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// DeliveryFrom returns what WithDelivery was given; nil if ctx is not that of a delivered request.
func DeliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}

// RefuseDelivery refuses a delivered request that has come to a handler without an Inbox, because the routes have changed
// since it was accepted: where keys do not count its work could run several times. The Delivery's Advice says so.
func RefuseDelivery(w http.ResponseWriter, r *http.Request, o Options) {
	o = o.WithDefaults()
	o.refuseDelivery(w, r)
}

// refuseDelivery is RefuseDelivery for options with their defaults.
func (o *Options) refuseDelivery(w http.ResponseWriter, r *http.Request) {
	DeliveryFrom(r.Context()).Advice = retrysafe.SituationNotSupported.Advice()
	o.writeProblem(w, problem(retrysafe.SituationNotSupported), nil)
}

// longestInboxWait is how long a client may wait for the answer to a request that was accepted, with Prefer: wait.
const longestInboxWait = time.Minute

// acceptIntoInbox saves the request, and answers 202 with the address of its status, or with the final answer if there is
// one in time.
func (x *exchange) acceptIntoInbox() {
	if p := x.spool(); p != nil {
		x.writeProblem(*p)
		return
	}
	if x.refusedByAge() {
		return
	}
	began := time.Now()
	ctx, stop := asking(x.r.Context())
	defer stop()
	fresh, err := x.m.Inbox.Accept(ctx, &Accepted{
		Key: x.request.Key, Fingerprint: x.request.Fingerprint, Kept: x.m.kept(), Request: x.r, Body: x.bodyBytes(),
	})
	p := new(Problem)
	switch {
	case err == nil:
	case errors.As(err, &p):
		x.refuse(*p)
		return
	case errors.Is(err, retrysafe.ErrMismatch):
		x.adviseOn(retrysafe.ErrMismatch, retrysafe.Record{Key: x.request.Key})
		return
	default:
		x.refuseUnsaved()
		return
	}
	wait := x.m.InboxWait
	switch {
	case x.prefer.async:
		wait = 0
		x.w.Header().Add("Preference-Applied", "respond-async")
	case x.prefer.wait > 0:
		wait = min(x.prefer.wait, longestInboxWait)
		x.setPreferenceApplied()
	}
	if a, ended := x.awaitEnd(wait - time.Since(began)); ended {
		switch {
		case x.request.Fingerprint.Matches(a.Record.Fingerprint):
			x.answerDelivered(a, fresh)
			return
		case len(x.m.FingerprintHeaders) == 0: // the key is that of a request which did not come through the Inbox
			x.adviseOn(retrysafe.ErrMismatch, retrysafe.Record{Key: x.request.Key})
			return
		}
		// It may be the delivery of this request, from which a field is missing that is compared and not saved.
	}
	if x.m.InboxAnswer == (InboxAnswer{}) || x.prefer.async || x.prefer.wait > 0 {
		x.accept("accepted", time.Second)
		return
	}
	x.m.setStatus(x.w.Header(), "in-flight")
	x.w.Header().Set("Location", x.statusURL())
	x.m.InboxAnswer.write(x.w)
}

// askTimeout bounds the calls for one request that asking is for.
const askTimeout = 30 * time.Second

// asking returns the context of calls to a store or an inbox for a request: without the end of ctx, which comes also when
// the client has only closed its sending half and still reads.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
}

// refuseUnsaved refuses a request of which the storage has not said whether it is saved.
func (x *exchange) refuseUnsaved() {
	p := problem(retrysafe.SituationStoreUnavailable)
	p.Executed = retrysafe.ExecutedUnknown.String()
	p.Detail = "The request may have been accepted or not, because its storage failed. Retry with the same key."
	p.Retryable, p.RetryAfter = true, time.Second
	x.refuse(p)
}

// refusedByAge refuses a key that is too old, unless its request waits or its record is there, and reports whether it has
// answered. It is asked here and not at the delivery, because a request may wait for longer than keys may be old.
func (x *exchange) refusedByAge() bool {
	if !x.m.isTooOld(x) {
		return false
	}
	ctx, stop := asking(x.r.Context())
	defer stop()
	_, isKnown, err := x.m.Inbox.Waiting(ctx, x.request.Key.Digest())
	if err == nil && !isKnown {
		var record retrysafe.Record
		record, err = x.lookUp(ctx)
		isKnown = record.State != 0
	}
	switch {
	case err != nil:
		x.refuseUnsaved()
	case !isKnown:
		x.refuse(problem(retrysafe.SituationKeyTooOld))
	}
	return err != nil || !isKnown
}

// awaitEnd waits until the request has been delivered, or until nothing more comes of it without a person.
func (x *exchange) awaitEnd(wait time.Duration) (a retrysafe.Advice, ended bool) {
	if wait <= 0 {
		return a, false
	}
	ctx, stop := context.WithTimeout(x.r.Context(), wait)
	defer stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		a = x.m.guard.ExplainKey(ctx, x.request.Key.Digest())
		if a.Record.State.Ended() || a.Situation == retrysafe.SituationOutcomeUnknown && !a.Retryable {
			return a, true
		}
		look := time.NewTimer(pause)
		select {
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return a, false
		}
	}
}

// answerDelivered answers with what the handler has answered to the delivery: as its first answer if the request is fresh,
// and as a replay otherwise.
func (x *exchange) answerDelivered(a retrysafe.Advice, fresh bool) {
	known := a.Record
	if fresh && a.Situation == retrysafe.SituationProcessed {
		x.m.writeStored(x.w, x.r, retrysafe.Outcome{
			Result: known.Result, Stored: true, Age: known.Age, ReplayLeft: known.ReplayLeft, CompletedElsewhere: true,
		}, x.bodyBytes())
		return
	}
	x.m.writeResult(x.w, x.r, a)
}

// waiting returns what the inbox knows of a request whose record, of which a was said, does not say what became of it; nil
// if there is no inbox, or if nothing waits there. If the inbox does not say, a says that it is not known.
func (c *config) waiting(ctx context.Context, a *retrysafe.Advice, d retrysafe.Digest) *WaitingRequest {
	switch a.Situation {
	case retrysafe.SituationKeyNotFound, retrysafe.SituationReleased, retrysafe.SituationOutcomeUnknown:
	default:
		return nil
	}
	if c.Inbox == nil {
		return nil
	}
	s, ok, err := c.Inbox.Waiting(ctx, d)
	if err != nil { // a request that was accepted must not be called one that was never seen
		*a = retrysafe.SituationStoreUnavailable.Advice()
		return nil
	}
	if !ok || s.GivenUp && a.Situation == retrysafe.SituationOutcomeUnknown {
		return nil
	}
	return &s
}

// writeWaiting describes a request that waits in the inbox, as writeStatus does a record.
func (c *config) writeWaiting(w http.ResponseWriter, s WaitingRequest) {
	answer := struct {
		State    string `json:"state"`
		Executed string `json:"executed"`
		Next     string `json:"next"`
		Detail   string `json:"detail"`
		Tries    int    `json:"tries"`
		InMs     int64  `json:"in_ms"`
	}{
		"accepted", retrysafe.ExecutedNo.String(), "wait", "The request was accepted, and is going to be delivered.",
		s.Tries, s.In.Milliseconds(),
	}
	h := w.Header()
	switch {
	case s.GivenUp:
		answer.State, answer.Executed, answer.Next = "undelivered", retrysafe.ExecutedUnknown.String(), "do-not-repeat"
		answer.Detail = "The request was accepted, and could not be delivered. It is kept for the operator of this service."
	default:
		if s.Tries > 0 {
			answer.Executed = retrysafe.ExecutedUnknown.String()
		}
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(max(s.In, time.Second))))
	}
	body := encodedLine(answer)
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
