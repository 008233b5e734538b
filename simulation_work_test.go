package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/model"
)

var errOdd = errors.New("simulation: the work says so")

// before is what some requests answer before they have done anything.
func (r caller) before() error {
	switch r.mode {
	case 1:
		return retrysafe.Retryable(errOdd)
	case 2:
		return retrysafe.Terminal(fmt.Errorf("refused by request %d", r.n))
	}
	return nil
}

// after is what some requests answer after they have done their work.
func (r caller) after(body string) (retrysafe.Result, error) {
	switch r.mode {
	case 3:
		return retrysafe.Result{}, retrysafe.Unknown(errOdd)
	case 4:
		panic(errPanicInWork)
	case 10, 11, 12, 13: // for longer than a lease, some of them, and whatever becomes of the attempt
		time.Sleep(time.Duration(r.n%7) * time.Second)
	}
	return retrysafe.Result{Body: []byte(body)}, nil
}

// call has an effect in another system, which does not know keys.
func (r caller) call(ctx context.Context, body string) error {
	return r.send(ctx, "effect ", r.key, func() error {
		r.effect(r.key, body)
		return nil
	})
}

// callWithKey has an effect in another system, which does it once for each child key and returns the first body.
func (r caller) callWithKey(ctx context.Context, childKey, body string) (first string, err error) {
	err = r.send(ctx, "call ", r.key, func() error {
		if r.first[childKey] == "" {
			r.first[childKey] = body
			r.effect(r.key, body)
		}
		first = r.first[childKey]
		return nil
	})
	if err != nil { // the call may take effect later
		return "", err
	}
	return first, nil
}

func (r caller) body(a *retrysafe.Attempt) string {
	return fmt.Sprintf("%s under %d by request %d", r.key, a.Fence(), r.n)
}

func (r caller) once(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
	if err := r.before(); err != nil {
		return retrysafe.Result{}, err
	}
	if err := r.call(ctx, r.body(a)); err != nil {
		return retrysafe.Result{}, retrysafe.Unknown(err)
	}
	return r.after(r.body(a))
}

// steps are two steps and an answer. A step that was saved is not run by a later attempt.
func (r caller) steps(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
	if err := r.before(); err != nil {
		return retrysafe.Result{}, err
	}
	for _, name := range []string{"one", "two"} {
		saved := r.key + name
		_, err := retrysafe.Step(ctx, name, func(ctx context.Context, childKey string) (string, error) {
			r.mu.Lock()
			if since := r.saved[saved]; since > 0 && a.Fence() > since && !r.dead {
				r.wrong("key %s: step %s ran under %d, and was saved under %d", r.key, name, a.Fence(), since)
			}
			r.mu.Unlock()
			return r.callWithKey(ctx, childKey, r.body(a))
		})
		if err != nil {
			return retrysafe.Result{}, err
		}
		r.mu.Lock()
		if !r.dead && (r.saved[saved] == 0 || a.Fence() < r.saved[saved]) {
			r.saved[saved] = a.Fence()
		}
		r.mu.Unlock()
	}
	return r.after(r.body(a))
}

// inTransaction has its effect in the transaction that completes the key.
func (r caller) inTransaction(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
	control := a.Control()
	inside, _, err := control.BeginTx(ctx)
	if err != nil {
		return retrysafe.Result{}, err
	}
	if err := r.before(); err != nil {
		control.RolledBack()
		return retrysafe.Result{}, err
	}
	result := retrysafe.Result{Body: []byte(r.body(a))}
	control.Capture(func() (retrysafe.Result, error) { return result, nil })
	err = control.CompleteIn(r.process, func(l retrysafe.Lease, res retrysafe.Result, keep retrysafe.Retention) error {
		err := r.send(inside, "commit ", r.key, func() error {
			err := r.change(r.key, func(s model.State) (model.State, bool) { return s.Complete(l, res, keep) })
			if err == nil {
				r.effect(r.key, r.body(a))
			}
			return err
		})
		if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
			err = retrysafe.Unknown(err)
		}
		return err
	})
	if err != nil {
		return retrysafe.Result{}, err
	}
	return r.after(r.body(a))
}

// elsewhere is done by a service, which completes the key in a transaction of its own. The service may die in it, and
// what it answers may be lost.
func (r caller) elsewhere(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
	control := a.Control()
	control.CompletedElsewhere()
	if err := r.before(); err != nil {
		return retrysafe.Result{}, err
	}
	t := &transaction{key: r.key, body: r.body(a)}
	err := r.send(ctx, "begin ", r.key, func() error {
		err := r.change(r.key, func(s model.State) (model.State, bool) {
			return s.BeginComplete(control.Lease(), retrysafe.Result{Body: []byte(t.body)}, r.guard.Policy().Retention)
		})
		if err == nil {
			r.open = append(r.open, t)
		}
		return err
	})
	switch {
	case err == nil && r.mode == 5: // the service dies
		err = errOdd
	case err == nil:
		err = r.send(ctx, "commit ", r.key, func() error { return r.commit(t) })
	}
	if err == nil {
		return r.after(t.body + ", as changed on the way") // the record decides
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.left = true
	return retrysafe.Result{}, retrysafe.Unknown(err)
}

// commit ends a transaction, unless it has been rolled back.
func (w *world) commit(t *transaction) error {
	i := slices.Index(w.open, t)
	if i < 0 {
		return errNetwork
	}
	w.open = slices.Delete(w.open, i, i+1)
	w.store[t.key] = w.state(t.key).Commit()
	w.effect(t.key, t.body)
	return nil
}

// fenced asks a system that refuses a fence which is less than one it has seen.
func (p *process) fenced(ctx context.Context, what string, a *retrysafe.Attempt, call func()) error {
	key, fence := a.ChildKey("call"), a.Fence()
	return p.send(ctx, what, a.Key().ID, func() error {
		if fence < p.fences[key] {
			return retrysafe.ErrLeaseLost
		}
		p.fences[key] = fence
		call()
		return nil
	})
}

// reconciled calls a system that can be asked what became of a call. It does again what it is asked to do again.
func (r caller) reconciled(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
	if err := r.before(); err != nil {
		return retrysafe.Result{}, err
	}
	if err := r.fenced(ctx, "effect ", a, func() { r.effect(r.key, r.body(a)) }); err != nil {
		return retrysafe.Result{}, retrysafe.Unknown(err)
	}
	return r.after(r.body(a))
}

// reconcile asks the system that reconciled calls.
func (p *process) reconcile(
	ctx context.Context, a *retrysafe.Attempt, _ retrysafe.Record,
) (found *retrysafe.Result, err error) {
	err = p.fenced(ctx, "ask ", a, func() {
		for _, body := range p.effects[a.Key().ID] {
			found = &retrysafe.Result{Body: []byte(body)}
		}
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
