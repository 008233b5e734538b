package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// UserTx is a transaction that the work begins and ends itself, and the store's CompleteTx for it.
type UserTx interface {
	// Exec executes a statement, as in TxStore.InTx.
	Exec(sql string) error
	// Complete is the store's CompleteTx with this transaction.
	Complete(ctx context.Context) error
	Commit() error
	Rollback() error
}

// BeginSQL begins a UserTx of database/sql.
func BeginSQL(ctx context.Context, db *sql.DB, completeTx func(context.Context, *sql.Tx) error) (UserTx, error) {
	tx, err := db.BeginTx(ctx, nil)
	return sqlTx{tx, completeTx}, err
}

type sqlTx struct {
	*sql.Tx
	completeTx func(context.Context, *sql.Tx) error
}

func (t sqlTx) Exec(text string) error {
	_, err := t.Tx.Exec(text)
	return err
}

// Unwrap returns the transaction of database/sql.
func (t sqlTx) Unwrap() *sql.Tx { return t.Tx }

func (t sqlTx) Complete(ctx context.Context) error { return t.completeTx(ctx, t.Tx) }

// RunCompleteTx checks each rule about a store's CompleteTx in a subtest. The TxStore must have Begin.
func RunCompleteTx(t *testing.T, h TxHarness) {
	t.Helper()
	runTx(t, h, completeTxRules())
}

// openTx begins a transaction and writes a row in it. It is rolled back when the rule ends, unless it has ended before.
func (k *txKit) openTx() UserTx {
	k.Helper()
	tx, err := k.store.Begin(context.Background())
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = tx.Rollback() })
	if err := tx.Exec(insertRow); err != nil {
		k.Fatal(err)
	}
	return tx
}

// endedWith runs work that writes a row, completes, ends its transaction as end does, and returns result.
func (k *txKit) endedWith(id string, end func(tx UserTx) error, result error) (ran bool, err error) {
	k.Helper()
	return k.do(id, func(ctx context.Context, _ *retrysafe.Attempt) error {
		tx := k.openTx()
		if err := tx.Complete(ctx); err != nil {
			k.Errorf("CompleteTx: %v", err)
		}
		if err := end(tx); err != nil {
			k.Error(err)
		}
		return result
	})
}

// noCommit expects that a transaction whose CompleteTx has failed cannot be committed.
func (k *txKit) noCommit(tx UserTx) {
	k.Helper()
	if err := tx.Commit(); err == nil {
		k.Error("Commit succeeds after CompleteTx has failed")
	}
}

func commit(tx UserTx) error   { return tx.Commit() }
func rollback(tx UserTx) error { return tx.Rollback() }

func completeTxRules() []txRule {
	results := map[string]error{
		"a success": nil, "an error": errOfWork,
		"a retryable error": retrysafe.Retryable(errOfWork), "an unknown error": retrysafe.Unknown(errOfWork),
	}
	return []txRule{
		{
			"completetx-committed",
			"after the caller's commit the rows and the answer are there, whatever the work returns", func(k *txKit) {
				rows := 0
				for name, result := range results {
					ran, err := k.endedWith(name, commit, result)
					if !ran || err != nil {
						k.Errorf("%s: ran %v, got %v; want the answer", name, ran, err)
					}
					k.done(name)
					rows++
				}
				k.rows(rows)
			},
		},
		{
			"completetx-rolled-back",
			"after the caller's rollback nothing is completed: the key ends as the work says, and work that says that it " +
				"has succeeded has an unknown outcome", func(k *txKit) {
				for name, result := range results {
					_, err := k.endedWith(name, rollback, result)
					var failure *retrysafe.Failure
					switch {
					case name == "an error" && !errors.As(err, &failure),
						name == "a retryable error" && (!errors.Is(err, errOfWork) || errors.Is(err, retrysafe.ErrAbandoned)),
						(name == "an unknown error" || name == "a success") && !errors.Is(err, retrysafe.ErrAbandoned):
						k.Errorf("%s: got %v", name, err)
					}
				}
				k.rows(0)
				k.runs("a retryable error")
			},
		},
		{
			"completetx-open",
			"work that returns before its transaction has ended frees nothing, and gets the answer once it is committed",
			func(k *txKit) {
				for name, result := range map[string]error{"a success": nil, "an error": retrysafe.Retryable(errOfWork)} {
					var tx UserTx
					_, err := k.endedWith(name, func(open UserTx) error { tx = open; return nil }, result)
					if !errors.Is(err, retrysafe.ErrInFlight) {
						k.Errorf("%s: got %v, want that it is in flight", name, err)
					}
					if ran, err := k.do(name, k.writeInTx); ran {
						k.Errorf("%s: the work ran again beside the open transaction: %v", name, err)
					}
					if err := tx.Commit(); err != nil {
						k.Error(err)
					}
					policy := retrysafe.Policy{OnInFlight: retrysafe.Wait(slack)}
					g := k.guard
					k.guard = retrysafe.New(k.store.Store, retrysafe.Options{Policy: policy})
					k.done(name)
					k.guard = g
				}
				k.rows(2)
			},
		},
		{
			"completetx-lease-lost",
			"if another attempt has the key, CompleteTx returns ErrLeaseLost, and the transaction cannot be committed",
			func(k *txKit) {
				_, _ = k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					k.takeOver(ctx, a)
					tx := k.openTx()
					err := tx.Complete(ctx)
					if !errors.Is(err, retrysafe.ErrLeaseLost) {
						k.Errorf("got %v, want ErrLeaseLost", err)
					}
					k.noCommit(tx)
					return err
				})
				k.rows(0)
			},
		},
		{
			"completetx-once",
			"CompleteTx is refused after CompleteTx and after InTx; so are steps and InTx after it",
			func(k *txKit) {
				refused := func(name string, err error) {
					if err == nil {
						k.Errorf("%s has returned nil", name)
					}
				}
				second := func(ctx context.Context, name string) {
					tx := k.openTx()
					refused(name, tx.Complete(ctx))
					k.noCommit(tx)
				}
				for _, first := range []string{"CompleteTx", "InTx"} {
					ran, err := k.do(first, func(ctx context.Context, _ *retrysafe.Attempt) error {
						if first == "InTx" {
							if err := k.store.InTx(ctx, write); err != nil {
								return err
							}
						} else {
							tx := k.openTx()
							if err := errors.Join(tx.Complete(ctx), tx.Commit()); err != nil {
								return err
							}
						}
						_, err := retrysafe.Step(ctx, "step", func(context.Context, string) (int, error) {
							k.Error("a step was run")
							return 0, nil
						})
						refused("a step", err)
						refused("InTx", k.store.InTx(ctx, func(context.Context, func(string) error) error {
							k.Error("the function of InTx was called")
							return nil
						}))
						second(ctx, "CompleteTx after "+first)
						return nil
					})
					if !ran || err != nil {
						k.Errorf("%s: ran %v, got %v", first, ran, err)
					}
					k.done(first)
				}
				k.rows(2)
			},
		},
		{
			"completetx-again",
			"after a rollback CompleteTx may be called in another transaction, and so may InTx", func(k *txKit) {
				for _, last := range []string{"CompleteTx", "InTx"} {
					ran, err := k.do(last, func(ctx context.Context, _ *retrysafe.Attempt) error {
						tx := k.openTx()
						if err := errors.Join(tx.Complete(ctx), tx.Rollback()); err != nil {
							return err
						}
						if err := retrysafe.SetResult(ctx, "answer"); err != nil {
							return err
						}
						if last == "InTx" {
							return k.store.InTx(ctx, write)
						}
						tx = k.openTx()
						return errors.Join(tx.Complete(ctx), tx.Commit())
					})
					if !ran || err != nil {
						k.Errorf("%s: ran %v, got %v", last, ran, err)
					}
					k.done(last)
				}
				k.rows(2)
			},
		},
		{
			"completetx-ended",
			"a transaction that has ended before is not completed, and the work does not run again", func(k *txKit) {
				_, err := k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
					tx := k.openTx()
					if err := tx.Commit(); err != nil {
						k.Error(err)
					}
					err := tx.Complete(ctx)
					if err == nil {
						k.Error("CompleteTx has returned nil")
					}
					return retrysafe.Retryable(err)
				})
				if !errors.Is(err, retrysafe.ErrAbandoned) {
					k.Errorf("got %v, want an unknown outcome", err)
				}
				k.rows(1)
				k.notDone("k")
			},
		},
		{
			"completetx-no-result",
			"without a result to save CompleteTx fails, and the transaction cannot be committed", func(k *txKit) {
				_, _ = k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					a.Control().Capture(nil)
					tx := k.openTx()
					err := tx.Complete(ctx)
					if err == nil {
						k.Error("CompleteTx has returned nil")
					}
					k.noCommit(tx)
					return retrysafe.Retryable(err)
				})
				k.rows(0)
				k.notDone("k")
			},
		},
		{
			"completetx-no-attempt",
			"outside of an attempt CompleteTx returns ErrNoAttempt, and the transaction goes on", func(k *txKit) {
				tx := k.openTx()
				if err := tx.Complete(k.Context()); !errors.Is(err, retrysafe.ErrNoAttempt) {
					k.Errorf("got %v, want ErrNoAttempt", err)
				}
				if err := tx.Commit(); err != nil {
					k.Error(err)
				}
				k.rows(1)
			},
		},
	}
}
