package retrysafetest

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// transaction holds the effects of a function given to InTx until it is committed.
type transaction struct{ effects []func() }

type transactionKey struct{}

// InTx runs f in a transaction without a database: the effects that f applies with its context (Apply), the results of
// steps that f runs, and the completion of the attempt that ctx belongs to become visible together, or none of them
// does. It stands for the InTx of sqlitestore and pgstore in unit tests, and keeps their rules as far as they are not
// about SQL.
//
// The attempt's result must be known when f returns: a handler has written its response by then, other work has called
// retrysafe.SetResult. Otherwise InTx fails and applies nothing. If f returns an error, InTx returns that error and
// applies nothing, and what f has written of an HTTP response is forgotten.
//
// InTx returns retrysafe.ErrNoAttempt outside of an attempt, and retrysafe.ErrLeaseLost if another attempt has taken
// the key over; then nothing is applied. An attempt without protection, because the store failed when it began and the
// policy was FailOpen, applies its effects and completes nothing.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context) error) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	tx := &transaction{}
	inside, steps := a.Control().StepsInTx(context.WithValue(ctx, transactionKey{}, tx))
	if err := f(inside); err != nil {
		a.Control().RolledBack()
		return err
	}
	if !a.Protected() {
		s.commit(tx)
		return nil
	}
	return a.Control().CompleteIn(s, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
		s.awaitOthers()
		return s.interruptible("the commit of InTx", l, func() error {
			// Only the work's end decides: a context that has ended since must not leave half of the steps behind.
			ctx := context.WithoutCancel(ctx)
			// A completion that is there already does not count, and Extend finds it.
			if err := s.memory.Extend(ctx, l, time.Minute); err != nil {
				return err
			}
			for _, step := range steps() {
				if err := s.memory.Checkpoint(ctx, l, step); err != nil {
					return err
				}
			}
			if err := s.memory.Complete(ctx, l, r, keep); err != nil {
				return err
			}
			tx.apply()
			return nil
		})
	})
}

func (s *Store) commit(tx *transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.apply()
}

func (tx *transaction) apply() {
	for _, effect := range tx.effects {
		effect()
	}
}

// Apply carries out effect as a database would a statement: when the transaction that ctx belongs to is committed, and
// at once outside of a transaction. It is for fakes that stand for tables: with it, an insert that is made with the
// wrong context stays although the transaction is rolled back, as it would in the database.
//
// The Store applies effects one at a time. An effect must not call the Store.
func (s *Store) Apply(ctx context.Context, effect func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tx, ok := ctx.Value(transactionKey{}).(*transaction); ok {
		tx.effects = append(tx.effects, effect)
		return
	}
	effect()
}
