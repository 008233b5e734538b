package retrysafetest

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// transaction holds the effects of a function given to InTx until it is committed.
type transaction struct {
	store   *Store
	end     context.Context
	effects []func()
}

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
// An attempt has one InTx: a second one, inside of it or after it, is refused before its f is called. After a rollback
// InTx may be called again. Steps inside run with the context that f is given; others are refused meanwhile.
//
// InTx returns retrysafe.ErrNoAttempt outside of an attempt, and retrysafe.ErrLeaseLost if another attempt has taken
// the key over; then nothing is applied. An attempt without protection, because the store failed when it began and the
// policy was FailOpen, applies its effects and completes nothing.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context) error) error {
	return storekit.InTx(ctx, s, func(ctx context.Context, _ *retrysafe.Attempt) (*transaction, error) {
		// Only the work's end decides: a context that has ended since must not leave half of the steps behind.
		return &transaction{store: s, end: context.WithoutCancel(ctx)}, nil
	}, func(ctx context.Context, tx *transaction) error {
		return f(context.WithValue(ctx, transactionKey{}, tx))
	})
}

// Intact implements storekit.Tx.
func (tx *transaction) Intact() error { return nil }

// Complete implements storekit.Tx.
func (tx *transaction) Complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention,
) error {
	s := tx.store
	s.awaitOthers()
	return s.interruptible("the commit of InTx", l, func() error {
		if err := s.fail; err != nil {
			s.fail = nil
			return err
		}
		// A completion that is there already does not count, and Extend finds it.
		if err := s.memory.Extend(tx.end, l, time.Minute); err != nil {
			return err
		}
		for _, step := range steps {
			if err := s.memory.Checkpoint(tx.end, l, step); err != nil {
				return err
			}
		}
		if err := s.memory.Complete(tx.end, l, r, keep); err != nil {
			return err
		}
		tx.apply()
		return nil
	})
}

// Commit implements storekit.Tx.
func (tx *transaction) Commit() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.apply()
	return nil
}

// Rollback implements storekit.Tx. Nothing is applied before the end.
func (tx *transaction) Rollback() {}

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
