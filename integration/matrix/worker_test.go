//go:build linux

package matrix

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
)

// lease is that of all attempts. What a store adds to it is in its lane.
const lease = 800 * time.Millisecond

// patience is how long a client repeats its request at most.
const patience = 60 * time.Second

// order is a line that the harness writes to a worker.
type order struct {
	Do     string // request, pass, sweep, full, space; post, deliver, look: see delivery_test.go
	ID     string // of the request
	Key    string
	Policy string
	Ledger string // path
	Arms   []arm
	Slow   bool // the work takes more than one heartbeat
	Any    bool // the request matches any other with the key

	respond func(body string) // of a handler whose answer is saved with its transaction
}

// arm is something that happens to the calls of a key at a point: the first Times of them.
type arm struct {
	Point string // claim:before, claim:after, work, effect, saved, complete:before, …
	What  string // hold, lose, throttle
	Times int
}

// event is a line that a worker writes.
type event struct {
	At    int64  // microseconds of this machine, when it happened or ended
	Began int64  // when a call began
	Kind  string // ready, held, call, run, effect, saved, swept, end, failed
	ID    string
	Key   string
	Point string // of held; the method of call; the step of saved
	Err   string
	Lost  bool // the call was refused because the lease is lost
	Fence int64
	Body  string // of a result
	// of end
	Answered, Stored, Replayed bool
}

// worker is the program that the harness kills and stops. It has one store and one Guard for each policy, as a service
// has, and writes all that it sees to stdout.
type worker struct {
	place place
	store *armed
	opened

	out sync.Mutex

	mu     sync.Mutex // guards what follows
	guards map[string]*retrysafe.Guard
	arms   map[string][]arm           // by key
	held   map[string][]chan struct{} // by key

	inboxes map[string]http.Handler // by policy
}

// runWorker does what it is told until stdin ends.
func runWorker(text string) error {
	w := &worker{guards: map[string]*retrysafe.Guard{}, arms: map[string][]arm{}, held: map[string][]chan struct{}{}}
	w.inboxes = map[string]http.Handler{}
	if err := json.Unmarshal([]byte(text), &w.place); err != nil {
		return err
	}
	var err error
	if w.opened, err = w.place.openPatiently(); err != nil {
		return err
	}
	w.store = &armed{Store: w.opened.store, worker: w}
	w.tell(event{Kind: "ready"})
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o order
		if err := json.Unmarshal(orders.Bytes(), &o); err != nil {
			return err
		}
		if err := w.obey(o); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) obey(o order) error {
	switch o.Do {
	case "request", "post":
		w.mu.Lock()
		w.arms[o.Key] = append(w.arms[o.Key], o.Arms...)
		w.mu.Unlock()
		if o.Do == "post" {
			go w.post(o)
		} else {
			go w.client(o)
		}
	case "deliver":
		_, err := w.inboxOf(o.Policy)
		return err
	case "look":
		go w.look(o)
	case "pass":
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, held := range w.held[o.Key] {
			close(held)
		}
		delete(w.held, o.Key)
		delete(w.arms, o.Key)
	case "sweep":
		go w.sweep(o.Key)
	case "full", "space":
		return limitFiles(o.Do == "full")
	default:
		return fmt.Errorf("unknown order %q", o.Do)
	}
	return nil
}

// tell writes an event.
func (w *worker) tell(e event) {
	e.At = time.Now().UnixMicro()
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	w.out.Lock()
	defer w.out.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n')) // an error means that the harness has ended
}

// client sends a request until it has a final answer: a stored one, or under Refuse that the outcome is unknown.
func (w *worker) client(o order) {
	r := retrysafe.Request{Key: retrysafe.Key{Scope: "matrix", ID: o.Key}, Fingerprint: "raw1:request"}
	if o.Any {
		r.Fingerprint = ""
	}
	g := w.guard(o.Policy)
	for began := time.Now(); ; time.Sleep(30 * time.Millisecond) {
		work := func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) { return w.work(ctx, a, o) }
		out, err := g.Do(context.Background(), r, work)
		e := event{Kind: "end", ID: o.ID, Key: o.Key}
		switch {
		case err == nil:
			e.Answered, e.Stored, e.Replayed, e.Body = true, out.Stored, out.Replayed, string(out.Result.Body)
		case errors.Is(err, retrysafe.ErrAbandoned) && o.Policy == refuse, time.Since(began) > patience:
			e.Err = err.Error()
		default:
			continue
		}
		w.tell(e)
		return
	}
}

// guard returns the Guard for a policy.
func (w *worker) guard(policy string) *retrysafe.Guard {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.guards[policy]
	if g == nil {
		g = retrysafe.New(w.store, retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{
			Lease:       lease,
			Timeout:     -1,
			OnInFlight:  retrysafe.Wait(lease / 2),
			OnAbandoned: w.onAbandoned(policy),
			HoldUnsaved: lease / 2,
		}})
		w.guards[policy] = g
	}
	return g
}

// take returns what is armed at a point of a key, and uses it up. hold is used up by one call, lose and throttle by as
// many as they say: first those that are lost, then those that are throttled.
func (w *worker) take(key, point, what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.arms[key] {
		if a := &w.arms[key][i]; a.Point == point && a.What == what && a.Times > 0 {
			a.Times--
			return true
		}
	}
	return false
}

// at holds the caller at a point of a key if that is armed, until the harness lets it pass.
func (w *worker) at(key, point string) {
	if !w.take(key, point, "hold") {
		return
	}
	held := make(chan struct{})
	w.mu.Lock()
	w.held[key] = append(w.held[key], held)
	w.mu.Unlock()
	w.tell(event{Kind: "held", Key: key, Point: point})
	<-held
}

// sweep fills the store with records that have expired, and sweeps them.
func (w *worker) sweep(key string) {
	ctx := context.Background()
	sweeper, ok := retrysafe.As[retrysafe.Sweeper](w.opened.store)
	if !ok {
		w.tell(event{Kind: "failed", Key: key, Err: "the store does not sweep"})
		return
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 4 {
				short := retrysafe.Retention{Replay: time.Millisecond, Key: time.Millisecond, Audit: time.Millisecond}
				c, err := w.opened.store.Claim(ctx, retrysafe.ClaimParams{
					Key:   retrysafe.Key{Scope: "sweep", ID: fmt.Sprint(key, i, j)},
					Owner: retrysafe.NewOwner(), Lease: lease, Keep: short,
				})
				if err == nil { // an error of one does not matter: there are others
					_ = w.opened.store.Complete(ctx, c.Lease, retrysafe.Result{Body: make([]byte, 1000)}, short)
				}
			}
		})
	}
	all.Wait()
	w.tell(event{Kind: "held", Key: key, Point: "sweep"})
	_, err := sweeper.Sweep(ctx, 500)
	w.tell(event{Kind: "swept", Key: key, Err: text(err)})
}

// limitFiles has the kernel refuse to make files of this process larger, as on a full disk.
func limitFiles(full bool) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if full {
		limit.Cur = 4096
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(err.Error(), "error")
}

// armed is a store that tells of each call, holds calls at points, and loses answers.
type armed struct {
	retrysafe.Store
	worker *worker
}

// Unwrap finds the store for its transactions.
func (s *armed) Unwrap() retrysafe.Store { return s.Store }

// errConnection and errThrottled are what a client of a server gets when the connection breaks, and from a server that
// is asked too often.
var (
	errConnection = errors.New("the connection was reset by the peer")
	errThrottled  = errors.New("throttled: too many requests")
)

// call makes a call with all that is armed for it.
func (s *armed) call(k retrysafe.Key, method string, fence int64, call func() (int64, error)) error {
	w := s.worker
	if k.Scope != "matrix" {
		_, err := call()
		return err
	}
	w.at(k.ID, method+":before")
	lose := w.take(k.ID, method, "lose")
	if !lose && w.take(k.ID, method, "throttle") {
		return errThrottled
	}
	began := time.Now().UnixMicro()
	w.tell(event{Kind: "calling", Key: k.ID, Point: method, Began: began, Fence: fence})
	got, err := call()
	w.tell(event{
		Kind: "call", Key: k.ID, Point: method, Began: began, Fence: max(got, fence), Err: text(err),
		Lost: errors.Is(err, retrysafe.ErrLeaseLost),
	})
	w.at(k.ID, method+":after")
	if lose && err == nil {
		err = errConnection
	}
	return err
}

// Claim implements retrysafe.Store.
func (s *armed) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	err = s.call(p.Key, "claim", 0, func() (int64, error) {
		c, err = s.Store.Claim(ctx, p)
		return c.Lease.Fence, err // 0 if it was not acquired
	})
	if err != nil {
		return retrysafe.Claim{}, err
	}
	return c, nil
}

// Extend implements retrysafe.Store.
func (s *armed) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	method := "beat"
	if d <= 0 {
		method = "lapse"
	}
	return s.call(l.Key, method, l.Fence, func() (int64, error) { return 0, s.Store.Extend(ctx, l, d) })
}

// Checkpoint implements retrysafe.Store.
func (s *armed) Checkpoint(ctx context.Context, l retrysafe.Lease, r retrysafe.StepResult) error {
	return s.call(l.Key, "step", l.Fence, func() (int64, error) { return 0, s.Store.Checkpoint(ctx, l, r) })
}

// Complete implements retrysafe.Store.
func (s *armed) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	return s.call(l.Key, "complete", l.Fence, func() (int64, error) { return 0, s.Store.Complete(ctx, l, r, keep) })
}

// Release implements retrysafe.Store.
func (s *armed) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.call(l.Key, "release", l.Fence, func() (int64, error) { return 0, s.Store.Release(ctx, l) })
}
