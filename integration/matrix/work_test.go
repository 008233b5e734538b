//go:build linux

package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
)

func (w *worker) onAbandoned(policy string) retrysafe.AbandonedPolicy {
	switch policy {
	case refuse:
		return retrysafe.Refuse()
	case reconcile:
		return retrysafe.Reconcile(w.reconcile)
	case sameTx:
		return retrysafe.RerunTx()
	}
	return retrysafe.Rerun()
}

// work does what the policy's work does, and passes the points work and effect.
func (w *worker) work(ctx context.Context, a *retrysafe.Attempt, o order) (retrysafe.Result, error) {
	run := fmt.Sprintf("%s-%d", o.ID, a.Fence())
	w.tell(event{Kind: "run", ID: o.ID, Key: o.Key, Fence: a.Fence()})
	if o.Slow {
		time.Sleep(lease * 2 / 3) // a heartbeat comes meanwhile
	}
	w.at(o.Key, "work")
	body := run
	var err error
	switch o.Policy {
	case sameTx:
		err = w.inTx(ctx, a, o, run)
	case steps:
		var one, two string
		if one, err = w.step(ctx, a, o, "one", run); err == nil {
			two, err = w.step(ctx, a, o, "two", run)
		}
		body = one + "+" + two
	default:
		err = w.effect(o, entry{Kind: "effect", Run: run, Fence: a.Fence(), Compare: o.Policy == reconcile})
		w.at(o.Key, "effect")
	}
	if err != nil {
		return retrysafe.Result{}, err
	}
	return retrysafe.Result{Body: []byte(body)}, nil
}

func (w *worker) step(ctx context.Context, a *retrysafe.Attempt, o order, name, run string) (string, error) {
	saved, err := retrysafe.Step(ctx, name, func(_ context.Context, child string) (string, error) {
		err := w.effect(o, entry{Kind: "effect", Run: run, Fence: a.Fence(), Step: name, Child: child})
		w.at(o.Key, "effect")
		return run, err
	})
	if err == nil {
		w.tell(event{Kind: "saved", ID: o.ID, Key: o.Key, Point: name, Fence: a.Fence()})
		w.at(o.Key, "saved")
	}
	return saved, err
}

// inTx inserts a row, and completes the key in the same transaction.
func (w *worker) inTx(ctx context.Context, a *retrysafe.Attempt, o order, run string) error {
	if o.respond == nil {
		a.Control().Capture(func() (retrysafe.Result, error) { return retrysafe.Result{Body: []byte(run)}, nil })
	}
	began := time.Now().UnixMicro()
	w.tell(event{Kind: "calling", Key: o.Key, Point: "complete", Began: began, Fence: a.Fence()})
	err := w.transaction(ctx, a, func(insert func() error) error {
		if err := insert(); err != nil {
			return err
		}
		if o.respond != nil {
			o.respond(run)
		}
		w.at(o.Key, "effect")
		w.at(o.Key, "complete:before")
		return nil
	}, o.Key, run)
	w.tell(event{
		Kind: "call", Key: o.Key, Point: "complete", Began: began, Fence: a.Fence(), Err: text(err),
		Lost: errors.Is(err, retrysafe.ErrLeaseLost),
	})
	w.at(o.Key, "complete:after")
	return err
}

// reconcile asks the other system what became of the operation. The answer holds: what comes later with a smaller fence
// is refused.
func (w *worker) reconcile(_ context.Context, a *retrysafe.Attempt, _ retrysafe.Record) (*retrysafe.Result, error) {
	found, err := writeLedger(w.ledgerOf(a.Key().ID), entry{Kind: "asked", Fence: a.Fence(), Compare: true})
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		if e.Kind == "effect" {
			return &retrysafe.Result{Body: []byte(e.Run)}, nil
		}
	}
	return nil, nil
}

// ledgerOf is the path of the ledger of a key, of which there is one.
func (w *worker) ledgerOf(key string) string { return w.place.Ledgers + "/" + key }

func (w *worker) effect(o order, e entry) error {
	_, err := writeLedger(w.ledgerOf(o.Key), e)
	if err != nil {
		return retrysafe.Unknown(err)
	}
	w.tell(event{Kind: "effect", ID: o.ID, Key: o.Key, Fence: e.Fence})
	return nil
}

// entry is a line of a ledger: what a system outside has seen of one key.
type entry struct {
	At                     int64
	Kind, Run, Step, Child string
	Fence                  int64
	Compare                bool `json:"-"` // refuse it if a larger fence was seen
}

var errOldFence = errors.New("the other system has seen a larger fence")

// writeLedger adds an entry under a lock and syncs it, and returns those before it.
func writeLedger(path string, e entry) (before []entry, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // and with it the lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if before, err = readLedger(path); err != nil {
		return nil, err
	}
	for _, b := range before {
		if e.Compare && b.Fence > e.Fence {
			return nil, errOldFence
		}
	}
	e.At = time.Now().UnixMicro()
	line, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	return before, f.Sync()
}

// readLedger returns the entries of a ledger; none if there is no ledger.
func readLedger(path string) (all []entry, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, err
}
