package inbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
)

// Options are the options of an Inbox. Options{} works.
type Options struct {
	// Order is what requests have in common that are delivered one after the other, in the order in which they were
	// acknowledged, such as the number of an order: a later one waits until an earlier one has ended, or was dropped. A
	// request that lacks it is delivered on its own. Default: requests are delivered in no particular order.
	Order httpsafe.TagPlace
	// KeepHeaders are fields that are saved although they hold credentials: "Authorization", "X-Api-Key", "Cookie",
	// "Proxy-Authorization". Default: none.
	KeepHeaders []string

	// Concurrency is how many requests one process delivers at once. Default 16.
	Concurrency int
	// Attempts is the number of tries after which a request is given up. Tries in which the service could not be reached
	// do not count. Default 25; negative: no limit.
	Attempts int
	// For is the age at which a request is given up, when its next try has failed. Default 72 hours.
	For time.Duration
	// FirstDelay is the upper limit of the delay after the first failure. It doubles with each try up to MaxDelay; the
	// delay is random below it, and not less than a Retry-After of the service asks for. Defaults 1 s and 1 hour.
	FirstDelay, MaxDelay time.Duration
	// Timeout is the longest time that one delivery may take. The Guard's Policy.Timeout should be shorter. Default 1
	// minute.
	Timeout time.Duration
	// Retention is how long a request that was delivered is known, so that its repetition is not saved again. It should
	// be that of the Guard's records. Inboxes in one table need the same, because each of them sweeps the table. Default 24
	// hours.
	Retention time.Duration
	// Idle is the longest time between two looks for requests that another process has accepted, or whose delay is over.
	// Default 500 ms.
	Idle time.Duration

	// MaxWaiting and MaxBytes bound the requests that wait, of all callers: what comes beyond is refused with 503. Default
	// 100,000 requests, and 1 GiB.
	MaxWaiting int
	MaxBytes   int64
	// MaxPerCaller bounds the requests of one caller that wait: what comes beyond is refused with 429. Default 10,000;
	// negative: no limit, for requests that are all of one caller, such as those of a webhook.
	MaxPerCaller int
	// MaxLag bounds how long requests wait for their first delivery: while the oldest of those has waited longer, new ones
	// are refused with 503. A request whose delivery has failed does not count, and nor do those whose time has not come, or
	// that wait for an earlier one (Order): one bad request does not close the inbox. When that one has ended, the next
	// one of its order counts from its acceptance. While the service cannot be reached, requests whose delivery was
	// tried count from their acceptance, too, and not from their time.
	//
	// Default: no bound. An inbox is there to accept requests while the service is down, and senders of webhooks give up, or
	// switch the webhook off, when they are refused. Set it for requests that are worth nothing when they are late, or
	// whose clients can go elsewhere.
	MaxLag time.Duration
	// MaxSchedule is how far ahead DeliverAtHeader may lie. Default: such requests are refused.
	MaxSchedule time.Duration

	// Space is called before a request is saved, which is refused with 503 if it returns an error that is
	// [retrysafe.ErrStoreFull]. It is the method CheckSpace of the sqlitestore.Store in whose file the inbox is: requests
	// that wait could otherwise take the space that their own keys need, and none would be delivered. Default: nothing is
	// called.
	Space func(ctx context.Context) error

	// Circuit is shared by inboxes whose requests go to the same service: while that cannot be reached, one request at a
	// time of all of them tries it. Default: the inbox has its own.
	Circuit *outbox.Circuit
	// Observer receives the events of the deliveries: a message is a request, and its topic that of the Inbox.
	Observer outbox.Observer
}

// DeliverAtHeader asks for the delivery of a request at a time, as in RFC 3339: see Options.MaxSchedule.
const DeliverAtHeader = "Retrysafe-Deliver-At"

// Situations in which an Inbox refuses a request. Nothing is saved then.
const (
	// Full: as many requests wait as Options.MaxWaiting or Options.MaxBytes admit, or there is no Options.Space.
	Full httpsafe.Slug = "inbox-full"
	// CallerFull: as many requests of the caller wait as Options.MaxPerCaller admits.
	CallerFull httpsafe.Slug = "inbox-caller-full"
	// Behind: the oldest request has waited longer than Options.MaxLag.
	Behind httpsafe.Slug = "inbox-behind"
	// ScheduleRefused: DeliverAtHeader is no time, or too far ahead.
	ScheduleRefused httpsafe.Slug = "schedule-refused"
	// HeaderRefused: a field of the header holds bytes that are not UTF-8.
	HeaderRefused httpsafe.Slug = "header-refused"
	// BodyRefused: the body begins with the bytes by which an [outbox.Outbox] knows encrypted content.
	BodyRefused httpsafe.Slug = "body-refused"
)

// problems are the texts of these situations. What is wrong with a header takes the place of a detail.
var problems = map[httpsafe.Slug]httpsafe.Problem{
	Full: {
		Status: http.StatusServiceUnavailable, Title: "Too many requests wait", Detail: retryLater,
		Retryable: true, RetryAfter: 10 * time.Second,
	},
	CallerFull: {
		Status: http.StatusTooManyRequests, Title: "Too many of your requests wait", Detail: retryLater,
		Retryable: true, RetryAfter: 10 * time.Second,
	},
	Behind: {
		Status: http.StatusServiceUnavailable, Title: "Requests wait for too long", Detail: retryLater,
		Retryable: true, RetryAfter: time.Minute,
	},
	ScheduleRefused: {
		Status: http.StatusBadRequest, Title: "The time of delivery cannot be kept",
		Detail: DeliverAtHeader + " must be one time such as 2030-01-31T18:00:00Z (RFC 3339).",
	},
	HeaderRefused: {
		Status: http.StatusBadRequest, Title: "A header cannot be saved",
		Detail: "A field of the header holds bytes that are not UTF-8. Send it without them.",
	},
	BodyRefused: {
		Status: http.StatusUnprocessableEntity, Title: "The body cannot be saved",
		Detail: "The body begins with bytes by which this service knows encrypted content.",
	},
}

// DefaultFor is the default of Options.For.
const DefaultFor = 72 * time.Hour

const retryLater = "This request was not accepted. An earlier one with the same key may have been: retry with that key."

func problem(slug httpsafe.Slug) *httpsafe.Problem {
	p := problems[slug]
	p.Slug, p.Executed = slug, retrysafe.ExecutedNo.String()
	return &p
}

// Problems implements [httpsafe.Inbox].
func (in *Inbox) Problems() (all []httpsafe.Problem) {
	for _, slug := range slices.Sorted(maps.Keys(problems)) {
		all = append(all, *problem(slug))
	}
	return all
}

// Inbox keeps the requests of one topic. It is an [httpsafe.Inbox]. Its methods are safe for concurrent use.
type Inbox struct {
	box   *outbox.Outbox
	topic string
	o     Options
	group group

	mu     sync.Mutex
	relays map[*outbox.Relay]bool
	counts counts
}

// Validate returns an error if Order names several places, or none that can be.
func (o Options) Validate() error {
	if o.Order == (httpsafe.TagPlace{}) {
		return nil
	}
	if err := o.Order.Validate(); err != nil {
		return errors.New("inbox: Order: " + strings.Replace(err.Error(), "a tag comes", "it comes", 1))
	}
	return nil
}

// New returns an inbox whose requests are messages of box with this topic. All processes that deliver requests of a topic
// give it the same options. New panics if the topic is empty or longer than [outbox.MaxNameBytes], or if o.Validate
// returns an error.
func New(box *outbox.Outbox, topic string, o Options) *Inbox {
	if topic == "" || len(topic) > outbox.MaxNameBytes {
		panic(fmt.Sprintf("inbox: the topic has %d bytes: it needs 1 to %d", len(topic), outbox.MaxNameBytes))
	}
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	keep := make([]string, len(o.KeepHeaders))
	for i, name := range o.KeepHeaders {
		keep[i] = http.CanonicalHeaderKey(name)
	}
	o.KeepHeaders = keep
	defaultTo(&o.Concurrency, 16)
	defaultTo(&o.MaxWaiting, 100_000)
	defaultTo(&o.MaxBytes, 1<<30)
	defaultTo(&o.For, DefaultFor)
	defaultTo(&o.FirstDelay, time.Second)
	defaultTo(&o.MaxDelay, time.Hour)
	defaultTo(&o.Timeout, time.Minute)
	defaultTo(&o.Retention, 24*time.Hour)
	defaultTo(&o.Idle, 500*time.Millisecond)
	o.Attempts, o.MaxPerCaller = cmp.Or(o.Attempts, 25), cmp.Or(o.MaxPerCaller, 10_000)
	return &Inbox{box: box, topic: topic, o: o, group: group{box: box}, relays: map[*outbox.Relay]bool{}}
}

// defaultTo sets what is not above zero.
func defaultTo[T int | int64 | time.Duration](v *T, standard T) {
	if *v <= 0 {
		*v = standard
	}
}

// Accept implements [httpsafe.Inbox].
func (in *Inbox) Accept(ctx context.Context, a *httpsafe.Accepted) (fresh bool, err error) {
	delay, err := in.delayOf(a.Request.Header.Values(DeliverAtHeader))
	if err != nil {
		// The first time counts. A repetition may come after a reload, or to a process with another clock.
		if known, unsaid := in.box.Status(ctx, a.Key.String()); unsaid != nil || len(known) == 0 {
			return false, cmp.Or(unsaid, err)
		}
	}
	m, err := in.message(a)
	if err != nil {
		return false, err
	}
	digest, sender := sha256.Sum256([]byte(a.Fingerprint)), sha256.Sum256([]byte(a.Key.Scope))
	e := outbox.Entry{Message: m, Digest: digest[:16], Sender: sender[:16], Delay: delay}
	if err := in.refuse(ctx, e); err != nil {
		return false, err
	}
	s, err := in.group.put(e)
	switch {
	case err != nil:
		return false, err
	case s.Taken:
		return false, in.compare(ctx, a)
	case s.New:
		in.counts.add(e)
		in.wake()
	}
	return s.New, nil
}

// compare returns retrysafe.ErrMismatch for a request whose digest differs from that of the one that has its key,
// unless their fingerprints were made by different algorithms, because the settings or the secret have changed since.
// As with the records of a store, they cannot be compared then, and count as the same request: a client that was told
// to use another key would have it run twice.
func (in *Inbox) compare(ctx context.Context, a *httpsafe.Accepted) error {
	known, ok, err := in.box.Message(ctx, a.Key.String())
	made := retrysafe.Fingerprint(known.Header[madeByName])
	switch {
	case err != nil:
		return err
	case known.Unreadable != nil:
		return known.Unreadable
	case !ok: // it was swept meanwhile
		return errors.New("inbox: the request that had the key is not known any more")
	case made != "" && !a.Fingerprint.Comparable(made):
		return nil
	}
	return retrysafe.ErrMismatch
}

// delayOf reads DeliverAtHeader. With an error it returns the delay that is refused, if there is one.
func (in *Inbox) delayOf(values []string) (time.Duration, error) {
	if len(values) == 0 {
		return 0, nil
	}
	refused := problem(ScheduleRefused)
	at, err := time.Parse(time.RFC3339, values[0])
	delay := time.Until(at)
	switch {
	case in.o.MaxSchedule <= 0:
		refused.Detail = "Requests to this address are not delivered at a later time: send it without " + DeliverAtHeader + "."
	case err != nil || len(values) > 1:
	case delay > in.o.MaxSchedule:
		refused.Detail = fmt.Sprintf("%s is too far ahead: at most %v are possible.", DeliverAtHeader, in.o.MaxSchedule)
	default:
		return delay, nil
	}
	return delay, refused
}

// Waiting implements [httpsafe.Inbox].
func (in *Inbox) Waiting(ctx context.Context, d retrysafe.Digest) (w httpsafe.WaitingRequest, ok bool, err error) {
	s, ok, err := in.box.Message(ctx, d.String())
	if err != nil || !ok {
		return w, false, err
	}
	if s.Unreadable != nil { // whose it is cannot be read either
		return w, false, s.Unreadable
	}
	isCanceled := s.State == outbox.Sent && s.Error != "" // by an operator: see outbox.Cancel
	if s.State == outbox.Sent && !isCanceled {
		return w, false, nil
	}
	return httpsafe.WaitingRequest{
		Scope: s.Header[scopeName], Tries: s.Try, In: s.Delay, GivenUp: s.State == outbox.Dead || isCanceled,
	}, true, nil
}

// counts are the requests that wait, as they were counted last in the database, and those that came here since.
type counts struct {
	mu       sync.Mutex
	bySender map[string]outbox.Backlog
	all      outbox.Backlog
	lag      time.Duration
	at       time.Time
	running  chan struct{} // closed when the count that runs has ended; nil: none runs
	err      error         // of the last count
}

// countEvery is how old the counts are at most when a request is accepted, as long as the database answers.
const countEvery = time.Second

func (c *counts) add(e outbox.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.bySender[string(e.Sender)]
	for _, b := range []*outbox.Backlog{&one, &c.all} {
		b.Messages++
		b.Bytes += int64(len(e.Body))
	}
	c.bySender[string(e.Sender)] = one
}

// refuse refuses a request for which there is no room.
func (in *Inbox) refuse(ctx context.Context, e outbox.Entry) error {
	if in.o.Space != nil {
		switch err := in.o.Space(ctx); {
		case errors.Is(err, retrysafe.ErrStoreFull):
			return problem(Full)
		case err != nil:
			return err
		}
	}
	if err := in.firstCount(ctx); err != nil {
		return err
	}
	c := &in.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > countEvery {
		in.startCount()
	}
	switch {
	case c.all.Messages >= in.o.MaxWaiting || c.all.Bytes+int64(len(e.Body)) > in.o.MaxBytes:
		return problem(Full)
	case in.o.MaxLag > 0 && c.lag > in.o.MaxLag:
		return problem(Behind)
	case in.o.MaxPerCaller > 0 && c.bySender[string(e.Sender)].Messages >= in.o.MaxPerCaller:
		return problem(CallerFull)
	}
	return nil
}

// firstCount waits until there are counts. All requests of a start wait for the same one: a count for each would keep the
// database from ending any.
func (in *Inbox) firstCount(ctx context.Context) error {
	c := &in.counts
	c.mu.Lock()
	if c.bySender != nil {
		c.mu.Unlock()
		return nil
	}
	running := in.startCount()
	c.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return fmt.Errorf("inbox: waiting requests are being counted: %w", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySender == nil {
		return c.err
	}
	return nil
}

// startCount begins to count unless a count runs, and returns a channel that is closed when it has ended. The mutex is held.
func (in *Inbox) startCount() <-chan struct{} {
	c := &in.counts
	if c.running == nil {
		c.running = make(chan struct{})
		go in.count()
	}
	return c.running
}

// count counts what waits. After a failure the next count is a moment away, too.
func (in *Inbox) count() {
	ctx, stop := context.WithTimeout(context.Background(), saveTime)
	defer stop()
	all, err := in.box.Waiting(ctx, in.topic)
	var lag time.Duration
	if err == nil && in.o.MaxLag > 0 {
		lag, err = in.box.Lag(ctx, in.topic)
	}
	c := &in.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.set(all, lag)
	} else {
		c.at = time.Now()
	}
	close(c.running)
	c.running = nil
}

// set notes what was counted. The mutex is held.
func (c *counts) set(bySender map[string]outbox.Backlog, lag time.Duration) {
	c.bySender, c.all, c.lag, c.at = bySender, outbox.Backlog{}, lag, time.Now()
	for _, b := range bySender {
		c.all.Messages += b.Messages
		c.all.Bytes += b.Bytes
	}
}
