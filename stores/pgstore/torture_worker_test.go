package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
)

const (
	tortureKeys    = 60
	tortureLease   = 40 * time.Millisecond
	tortureClients = 4 // in each process
)

var tortureKeep = retrysafe.Retention{
	Replay: 300 * time.Millisecond, Key: 300 * time.Millisecond,
	Audit: 300 * time.Millisecond,
}

// mutations break a statement, so that the checker has something to see. Each takes one test out of it.
func mutations(q *statements) map[string]mutation {
	const holder = " AND c.fence = p.fence AND c.owner = p.owner"
	return map[string]mutation{
		"complete without fence":           {forms(&q.steps[stepComplete]), " AND c.fence = p.fence", ""},
		"complete without fence and owner": {forms(&q.steps[stepComplete]), holder, ""},
		"extend without fence and owner":   {forms(&q.steps[stepExtend]), holder, ""},
		"release without fence and owner":  {forms(&q.steps[stepRelease]), holder, ""},
		"checkpoint without fence and owner": {
			forms(&q.steps[stepCheckpoint]),
			" AND c.owner = p.owner AND c.fence = p.fence", "",
		},
		"checkpoint that saves one step": {
			forms(&q.steps[stepCheckpoint]), "name, data FROM held",
			"name, data FROM held WHERE steps < 2",
		},
		"claim without lease": {forms(&q.steps[stepAcquire]), " AND c.ends_at <= excluded.claimed_at", ""},
		"sweep too early": {
			[]*string{&q.sweepClaims},
			"<= (SELECT now FROM m)",
			"<= (SELECT now + 1000000 FROM m)",
		},
	}
}

func forms(s *statement) []*string { return []*string{&s.many, &s.one} }

type mutation struct {
	texts        []*string
	old, instead string
}

func (m mutation) apply() error {
	for _, text := range m.texts {
		if !strings.Contains(*text, m.old) {
			return fmt.Errorf("the statement does not say %q", m.old)
		}
		*text = strings.ReplaceAll(*text, m.old, m.instead)
	}
	return nil
}

const mutantEnv = "PGSTORE_TEST_MUTANT"

// torture makes random calls on a few keys from several goroutines, sweeps beside them, and tells what it has seen on
// stdout, until it is killed.
func torture(s *Store) error {
	if name := os.Getenv(mutantEnv); name != "" {
		if err := mutations(s.sql)[name].apply(); err != nil {
			return err
		}
	}
	config := s.pool.Config()
	config.MaxConns = 2
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	register, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	failed := make(chan error)
	var out sync.Mutex
	for range tortureClients {
		w := &worker{store: s, register: register, out: &out}
		go func() {
			for {
				if err := w.attempt(); err != nil {
					failed <- err
				}
			}
		}()
	}
	go func() {
		for {
			if _, err := s.Sweep(context.Background(), 100); err != nil {
				failed <- err
			}
			time.Sleep(30 * time.Millisecond)
		}
	}()
	return <-failed
}

// worker is one client.
type worker struct {
	store    *Store
	register *pgxpool.Pool
	out      *sync.Mutex

	key   int
	owner retrysafe.Owner
	lease retrysafe.Lease   // the last
	all   []retrysafe.Lease // of this owner
	now   tick
	tries int
}

// tick is a moment in the order that the database gives to everything, with its clock, and the newest fence that the
// register of the key knows.
type tick struct{ N, At, Newest int64 }

// tick looks at the database's clock and writes the fence to the register, which keeps the greater one.
func (w *worker) tick(fence int64) error {
	return w.register.QueryRow(context.Background(),
		"UPDATE register SET fence = greatest(fence, $2) WHERE k = $1 RETURNING nextval('ticks'), retrysafe.clock(), "+
			"fence", w.key, fence).
		Scan(&w.now.N, &w.now.At, &w.now.Newest)
}

// attempt claims a key and, if it gets it, works on it in some way.
func (w *worker) attempt() error {
	w.key, w.owner, w.all, w.tries = rand.IntN(tortureKeys), retrysafe.NewOwner(), nil, 0
	if rand.IntN(2) == 0 {
		w.key = rand.IntN(tortureKeys / 10) // some are in demand
	}
	if err := w.tick(0); err != nil {
		return err
	}
	if err := w.claim(); err != nil || len(w.all) == 0 {
		return err
	}
	for range 1 + rand.IntN(7) {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) step() error {
	w.lease = w.all[rand.IntN(len(w.all))] // now and then one that it has lost since
	switch n := rand.IntN(100); {
	case n < 20:
		time.Sleep(rand.N(tortureLease / 2)) // that is the work
		return w.tick(0)
	case n < 27:
		time.Sleep(rand.N(4 * tortureLease))
		return w.tick(0)
	case n < 45:
		return w.call("extend", "", func(ctx context.Context) error { return w.store.Extend(ctx, w.lease, tortureLease) })
	case n < 50:
		return w.call("lapse", "", func(ctx context.Context) error { return w.store.Extend(ctx, w.lease, 0) })
	case n < 62:
		name := "step-" + strconv.Itoa(rand.IntN(3))
		return w.call("checkpoint", name, func(ctx context.Context) error {
			return w.store.Checkpoint(ctx, w.lease, retrysafe.StepResult{Name: name})
		})
	case n < 72:
		return w.claim()
	case n < 80:
		return w.call("release", "", func(ctx context.Context) error { return w.store.Release(ctx, w.lease) })
	}
	w.tries++
	body := fmt.Sprintf("%d %s %d", w.lease.Fence, w.owner, w.tries)
	return w.call("complete", body, func(ctx context.Context) error {
		return w.store.Complete(ctx, w.lease, retrysafe.Result{Body: []byte(body)}, tortureKeep)
	})
}

// call makes a call under the lease, and says so before and after.
func (w *worker) call(op, text string, f func(context.Context) error) error {
	e := event{Op: op, Key: w.key, Owner: w.owner.String(), Fence: w.lease.Fence, Text: text, Began: w.now, Trying: true}
	if err := w.say(e); err != nil {
		return err
	}
	ctx, cancel := impatient()
	defer cancel()
	switch err := f(ctx); {
	case err == nil:
		e.Answer = "ok"
	case errors.Is(err, retrysafe.ErrLeaseLost):
		e.Answer = "lost"
	case ctx.Err() == nil:
		return err
	}
	return w.saw(e)
}

// claim claims the key, perhaps once more.
func (w *worker) claim() error {
	ctx, cancel := impatient()
	defer cancel()
	p := retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: "torture", ID: strconv.Itoa(w.key)},
		Fingerprint: retrysafe.Fingerprint("raw1:" + strconv.Itoa(rand.IntN(8)/7)),
		Owner:       w.owner, Lease: tortureLease, Keep: tortureKeep, TakeOver: rand.IntN(4) > 0,
	}
	e := event{Op: "claim", Key: w.key, Owner: w.owner.String(), Began: w.now}
	c, err := w.store.Claim(ctx, p)
	if err == nil {
		e.Answer, e.Fence, e.FirstFence = c.Verdict.String(), c.Record.Fence, c.Record.FirstFence
		e.Text, e.Replayable = string(c.Record.Result.Body), c.Record.ReplayLeft > 0
		for _, s := range c.Record.Steps {
			e.Steps = append(e.Steps, s.Name)
		}
	} else if ctx.Err() == nil {
		return err
	}
	if c.Verdict == retrysafe.Acquired {
		w.all = append(w.all, c.Lease)
	}
	return w.saw(e)
}

// impatient is a context that now and then ends before the answer can be there.
func impatient() (context.Context, context.CancelFunc) {
	if rand.IntN(12) == 0 {
		return context.WithTimeout(context.Background(), rand.N(8*time.Millisecond))
	}
	return context.WithTimeout(context.Background(), time.Minute)
}

func (w *worker) saw(e event) error {
	fence := int64(0)
	if e.acquired() {
		fence = e.Fence
	}
	if err := w.tick(fence); err != nil {
		return err
	}
	e.Ended, e.Trying = w.now, false
	return w.say(e)
}

func (w *worker) say(e event) error {
	e.Clock = time.Now().UnixMicro()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	w.out.Lock()
	defer w.out.Unlock()
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
