package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// runClients makes random calls on a few keys from several clients, sweeps beside them, and writes what they see to
// stdout, until the process is killed. The last thing that it writes is the first error that none of them may see.
func (s Subject) runClients(store retrysafe.Store, j job) error {
	if s.Now == nil {
		s.Now = time.Now
	}
	failed := make(chan error)
	var out sync.Mutex
	_, clients := s.processes()
	for range clients {
		conn, err := net.Dial("tcp", j.Clock)
		if err != nil {
			return err
		}
		c := &client{Subject: s, store: store, clock: conn, out: &out}
		go func() {
			for {
				if err := c.attempt(); err != nil {
					failed <- err
				}
			}
		}()
	}
	if sweeper, ok := store.(retrysafe.Sweeper); ok {
		go func() {
			for ; ; time.Sleep(s.lease()) {
				if _, err := sweeper.Sweep(context.Background(), 100); err != nil && !s.unsure(err) {
					failed <- fmt.Errorf("sweep: %w", err)
				}
			}
		}()
	}
	err := <-failed
	if err := (&client{Subject: s, out: &out}).say(event{Op: "failed", Text: err.Error()}); err != nil {
		return err
	}
	select {} // until it is killed
}

func (s Subject) unsure(err error) bool { return s.Unsure != nil && s.Unsure(err) }

// client makes one call at a time.
type client struct {
	Subject
	store retrysafe.Store
	clock net.Conn
	out   *sync.Mutex // of stdout

	key   int
	owner retrysafe.Owner
	// request is what the owner claims for: an owner is one attempt, which repeats its claim with the same arguments.
	request retrysafe.Fingerprint
	lease   retrysafe.Lease   // the last
	all     []retrysafe.Lease // of this owner
	now     tick
	tries   int
}

// attempt claims a key and, if it gets it, works on it in some way.
func (c *client) attempt() error {
	c.key, c.owner, c.all, c.tries = rand.IntN(keys), retrysafe.NewOwner(), nil, 0
	c.request = retrysafe.Fingerprint("raw1:" + strconv.Itoa(rand.IntN(8)/7))
	if rand.IntN(2) == 0 {
		c.key = rand.IntN(keys / 10) // some are in demand
	}
	if err := c.tick(0); err != nil {
		return err
	}
	if err := c.claim(); err != nil || len(c.all) == 0 {
		return err
	}
	for range 1 + rand.IntN(7) {
		if err := c.step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) step() error {
	c.lease = c.all[rand.IntN(len(c.all))] // now and then one that it has lost since
	lease := c.Subject.lease()
	switch n := rand.IntN(100); {
	case n < 20:
		time.Sleep(rand.N(lease / 2)) // that is the work
		return c.tick(0)
	case n < 27:
		time.Sleep(rand.N(4 * lease)) // after which the lease may be another client's
		if err := c.tick(0); err != nil {
			return err
		}
		return c.step()
	case n < 45:
		return c.call("extend", "", func(ctx context.Context) error { return c.store.Extend(ctx, c.lease, lease) })
	case n < 50:
		return c.call("lapse", "", func(ctx context.Context) error { return c.store.Extend(ctx, c.lease, 0) })
	case n < 62:
		name := "step-" + strconv.Itoa(rand.IntN(3))
		return c.call("checkpoint", name, func(ctx context.Context) error {
			return c.store.Checkpoint(ctx, c.lease, retrysafe.StepResult{Name: name})
		})
	case n < 72:
		return c.claim()
	case n < 80:
		err := c.call("release", "", func(ctx context.Context) error { return c.store.Release(ctx, c.lease) })
		if err != nil || rand.IntN(2) == 0 {
			return err
		}
		return c.claim() // the same owner, under another fence
	}
	c.tries++
	body := fmt.Sprintf("%d %s %d", c.lease.Fence, c.owner, c.tries)
	return c.call("complete", body, func(ctx context.Context) error {
		return c.store.Complete(ctx, c.lease, retrysafe.Result{Body: []byte(body)}, c.keep())
	})
}

// call makes a call under the lease, and says so before and after.
func (c *client) call(op, text string, f func(context.Context) error) error {
	e := event{Op: op, Key: c.key, Owner: c.owner.String(), Fence: c.lease.Fence, Text: text, Began: c.now, Trying: true}
	if err := c.say(e); err != nil {
		return err
	}
	ctx, cancel := c.impatient()
	defer cancel()
	switch err := f(ctx); {
	case err == nil:
		e.Answer = "ok"
	case errors.Is(err, retrysafe.ErrLeaseLost):
		e.Answer = "lost"
	case ctx.Err() == nil && !c.unsure(err):
		return fmt.Errorf("%s: %w", op, err)
	default:
		c.rest(ctx)
	}
	return c.saw(e)
}

// claim claims the key, perhaps once more.
func (c *client) claim() error {
	e := event{
		Op: "claim", Key: c.key, Owner: c.owner.String(), Began: c.now, TakeOver: rand.IntN(4) > 0,
		Request: c.request, Trying: true,
	}
	if err := c.say(e); err != nil {
		return err
	}
	ctx, cancel := c.impatient()
	defer cancel()
	got, err := c.store.Claim(ctx, retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: "torture", ID: strconv.Itoa(c.key)},
		Fingerprint: e.Request, Owner: c.owner, Lease: c.Subject.lease(), Keep: c.keep(), TakeOver: e.TakeOver,
	})
	if err == nil {
		e.Answer, e.Fence, e.FirstFence = got.Verdict.String(), got.Record.Fence, got.Record.FirstFence
		e.Text, e.Replayable = string(got.Record.Result.Body), got.Record.ReplayLeft > 0
		e.Same = got.Record.Fingerprint == e.Request
		for _, s := range got.Record.Steps {
			e.Steps = append(e.Steps, s.Name)
		}
	} else if ctx.Err() == nil && !c.unsure(err) {
		return fmt.Errorf("claim: %w", err)
	} else {
		c.rest(ctx)
	}
	if got.Verdict == retrysafe.Acquired {
		c.all = append(c.all, got.Lease)
	}
	return c.saw(e)
}

// rest waits after an error of a server that is down: each call that fails at once might have happened, and of many such
// calls the judge could not tell.
func (c *client) rest(ctx context.Context) {
	if ctx.Err() == nil {
		time.Sleep(rand.N(c.Subject.lease()))
	}
}

// impatient is a context that now and then ends before the answer can be there.
func (c *client) impatient() (context.Context, context.CancelFunc) {
	if rand.IntN(12) == 0 {
		return context.WithTimeout(context.Background(), rand.N(c.Subject.lease()/5))
	}
	return context.WithTimeout(context.Background(), time.Minute)
}

// tick looks at the clock, which it tells of the fence that the key was claimed under.
func (c *client) tick(fence int64) (err error) {
	c.now, err = ask(c.clock, c.key, fence)
	return err
}

func (c *client) saw(e event) error {
	fence := int64(0)
	if e.acquired() {
		fence = e.Fence
	}
	if err := c.tick(fence); err != nil {
		return err
	}
	e.Ended, e.Trying = c.now, false
	return c.say(e)
}

func (c *client) say(e event) error {
	e.Clock = c.Now().UnixMicro()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	c.out.Lock()
	defer c.out.Unlock()
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
