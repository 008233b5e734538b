package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/retry"
)

// Engine makes the requests of one transport safe to retry. It is safe for concurrent use.
type Engine struct {
	options Options
	budgets budgets

	mu      sync.Mutex
	running map[string]int           // calls that are on their way for an intent of the journal, by its ID
	kept    map[string]time.Duration // how long servers keep answers that do so too shortly for the horizon, by origin
}

// NewEngine returns an Engine. It panics if o.Validate returns an error.
func NewEngine(o Options) *Engine {
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	o = o.WithDefaults()
	return &Engine{
		options: o, budgets: budgets{limit: o.Budget, left: map[string]float64{}},
		running: map[string]int{}, kept: map[string]time.Duration{},
	}
}

// Options returns the options with their defaults filled in.
func (e *Engine) Options() Options { return e.options }

// Request describes a request to the engine.
type Request struct {
	// Method and Origin, see Event.
	Method, Origin string
	// Name is what the request is called inside an attempt of a Guard if neither WithOperation nor a step names it.
	Name string
	// Digest is that of all that is sent, before a key is in it. Requests with equal digests are the same request.
	Digest string
}

// Exchange is one request on its way, as its transport has it. The engine calls its methods one after the other.
type Exchange interface {
	// Key returns the key that the caller has put on the request; empty if there is none. An error ends the call.
	Key() (string, error)
	// SetKey writes a key on the request and returns it as the server will read it. derived says that the key was
	// computed, as hex digits, so that it may be written in another form, such as a UUID. An error ends the call.
	SetKey(key string, derived bool) (string, error)
	// Journal completes the journal's entry: the URL, the header fields with the key and those of
	// Options.JournalHeaders, and the body. It is called if there is a journal, after the key is set. An error ends
	// the call.
	Journal(e *Entry) error
	// Send sends the request once and says what its reply means. e is the intent's entry, also if there is no journal:
	// its BegunAt is when the intent began.
	Send(ctx context.Context, e *Entry) Reply
	// Answer returns header and body of the last reply for an error, without the key; nil if they are in Reply.Err.
	Answer() (header map[string][]string, body []byte)
	// Discard drops the last reply, which the caller will not get.
	Discard()
}

// call is one intent on its way: its request, its key, and what is known so far.
type call struct {
	e       *Engine
	ctx     context.Context
	request Request
	x       Exchange
	entry   Entry
	digest  retrysafe.Digest

	began        time.Time // in this process
	attempts     int
	waited       int       // attempts that were told that another one is at work
	waitingSince time.Time // when the first of them was answered; zero: there is none
	goesOn       bool      // the next request belongs to the same attempt
	unclear      bool      // something that was sent may have run
	answered     bool      // the caller gets an answer of the server
}

// Do sends a request until its outcome is known, or until there is nothing more to be tried.
//
// If the server has answered, done is not nil, and err is [Reply.Err] of the answer: nil over HTTP. The journal keeps
// the intent until done is called. By read the transport says that the caller has the answer; otherwise it broke off,
// and the journal keeps the intent for the next Resume. done returns the journal's error.
//
// Without an answer done is nil, and err is an *OutcomeUnknownError, a *NotReplayableError, or says why nothing was
// sent or has run: [ErrKeyRequired], [ErrUnnamedCall], [retrysafe.ErrMismatch], an error of the Exchange, Reply.Err.
func (e *Engine) Do(ctx context.Context, r Request, x Exchange) (done func(read bool) error, err error) {
	c := &call{e: e, ctx: ctx, request: r, x: x, began: time.Now()}
	c.entry = Entry{Method: r.Method, Credential: credentialFrom(ctx), BegunAt: c.began}
	if err := c.chooseKey(); err != nil {
		return nil, err
	}
	c.digest = retrysafe.Key{Scope: retrysafe.Scope(r.Origin, c.entry.Credential), ID: c.entry.Key}.Digest()
	c.entry.ID = e.entryID(r.Origin, c.entry.Credential, c.entry.Key)
	if resumed, ok := ctx.Value(resumptionContext{}).(*resumption); ok && resumed.engine == e {
		return c.resume(resumed)
	}
	if e.options.Journal == nil {
		err := c.try()
		return c.doneWith(func(bool) error { return nil }), err
	}
	ended := e.track(c.entry.ID, false)
	if err := c.journalBegin(); err != nil {
		ended()
		return nil, err
	}
	if err = c.try(); err != nil && !c.answered {
		defer ended()
		return nil, joined(err, c.keep(err))
	}
	return func(read bool) error {
		defer ended()
		if !read {
			return nil
		}
		return c.end()
	}, err
}

// doneWith returns done if the caller gets an answer, and nil otherwise.
func (c *call) doneWith(done func(read bool) error) func(read bool) error {
	if !c.answered {
		return nil
	}
	return done
}

// joined is errors.Join that leaves a single error as it is.
func joined(err, further error) error {
	if further == nil {
		return err
	}
	return errors.Join(err, further)
}

// try sends the request until the outcome is known, or until there is nothing more to be tried.
func (c *call) try() error {
	var r Reply
	for {
		if c.pastHorizon(0) { // the entry is old, or the machine slept during the wait
			return c.interrupted(r, errHorizon)
		}
		began := time.Now()
		r = c.attempt()
		took := time.Since(began)
		switch c.action(r) {
		case Finish:
			c.report(r, took, false, 0)
			c.e.budgets.succeeded(c.request.Origin)
			return c.finish(r)
		case GiveUp:
			c.report(r, took, false, 0)
			return c.unknown(r, GaveUpAnswer)
		case NotKept:
			c.report(r, took, false, 0)
			c.e.budgets.succeeded(c.request.Origin)
			return c.notReplayable(r)
		case AtOnce:
			c.report(r, took, true, 0)
			c.x.Discard()
			continue
		}
		wait, why := c.mayRetry(r)
		c.report(r, took, why == "", wait)
		if why != "" {
			return c.exhausted(r, why)
		}
		c.x.Discard()
		if err := retry.Wait(c.ctx, wait); err != nil {
			return c.interrupted(r, err)
		}
	}
}

// action returns what to do about a reply: an answer that may not be the operation's is asked for once more if an
// earlier attempt may have run.
func (c *call) action(r Reply) Action {
	if r.Signal.Effect == Unproven && r.Signal.Action == Finish && c.unclear && !r.Last {
		return Again
	}
	return r.Signal.Action
}

// clockStep is how far in the future an intent may have begun: the clock was corrected by so much since.
const clockStep = time.Minute

// pastHorizon reports whether the horizon is past after a wait. The wall clock counts, because the monotonic one stands
// still while the machine sleeps; so does the time in this process, because the wall clock may be set back. If the
// intent began in the future, the clock was wrong then or is wrong now, and the intent's age is unknown.
func (c *call) pastHorizon(wait time.Duration) bool {
	now := time.Now()
	age := now.Round(0).Sub(c.entry.BegunAt.Round(0))
	return age < -clockStep || max(age, now.Sub(c.began))+wait >= c.e.horizon(c.request.Origin)
}

// horizon returns how long an intent may be sent to a server: at most half of the time for which it keeps answers.
func (e *Engine) horizon(origin string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept, known := e.kept[origin]; known {
		return min(e.options.Horizon, kept/2)
	}
	return e.options.Horizon
}

// keeps notes how long the server keeps answers, and reports whether the horizon is too long for that and it was not
// known. The second is for rounding.
func (e *Engine) keeps(origin string, retention time.Duration) (isNews bool) {
	if retention <= 0 || (retention+time.Second)/2 > e.options.Horizon {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before, known := e.kept[origin]
	if !known && len(e.kept) >= maxBudgets {
		return false
	}
	if !known || retention < before {
		e.kept[origin] = retention
	}
	return !known
}

// attempt sends once and notes what the reply proves.
func (c *call) attempt() Reply {
	if !c.goesOn {
		c.attempts++
	}
	r := c.x.Send(c.ctx, &c.entry)
	c.goesOn = r.Signal.Action == AtOnce
	c.unclear = c.unclear || r.Signal.Effect == MayHaveRun
	if c.e.keeps(c.request.Origin, r.Retention) {
		c.observe(Event{Kind: RetentionShort, Retention: r.Retention})
	}
	if r.Signal.Name == InFlight {
		c.waited++
		if c.waitingSince.IsZero() {
			c.waitingSince = time.Now()
		}
	}
	return r
}

// finish ends a call with its answer, unless the answer does not say how the operation ended, and an earlier attempt
// may have run.
func (c *call) finish(r Reply) error {
	if r.Signal.Effect != Answered && c.unclear {
		return c.unknown(r, GaveUpRefused)
	}
	c.answered = r.IsAnswer
	return r.Err
}

// exhausted ends a call for which there is no further attempt.
func (c *call) exhausted(r Reply, why string) error {
	switch {
	case c.unclear:
		return c.unknown(r, why)
	case r.IsAnswer:
		c.answered = true
		return r.Err
	}
	return fmt.Errorf("client: nothing was sent in %d attempts (%s): %w", c.attempts, why, r.Err)
}

// errHorizon ends a call that would be sent after its horizon.
var errHorizon = errors.New("the horizon is past")

// interrupted ends a call before it is sent again: its context ended while it waited, or its horizon is past.
func (c *call) interrupted(r Reply, err error) error {
	switch {
	case c.unclear && errors.Is(err, errHorizon):
		return c.unknown(r, GaveUpHorizon)
	case c.unclear:
		return c.unknown(r, GaveUpContext)
	case r.IsAnswer && r.Err != nil:
		return r.Err
	}
	return fmt.Errorf("client: nothing was done in %d attempts: %w", c.attempts, err)
}

// track notes that a call is on its way for an intent, until ended is called. If alone is set and another call is on
// its way for the intent, ended is nil.
func (e *Engine) track(id string, alone bool) (ended func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if alone && e.running[id] > 0 {
		return nil
	}
	e.running[id]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.running[id]--; e.running[id] == 0 {
			delete(e.running, id)
		}
	}
}

// calls returns how many calls are on their way for an intent.
func (e *Engine) calls(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[id]
}
