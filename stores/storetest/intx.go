package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// TxHarness tells RunInTx how to open a store whose completions can share a transaction with what the work writes.
type TxHarness struct {
	// Open returns a fresh, empty store, and closes it with t.Cleanup. Each rule opens its own. Required.
	Open func(t *testing.T) TxStore
}

// TxStore is a store and a table beside it.
type TxStore struct {
	retrysafe.Store
	// InTx is the store's InTx. exec executes a statement in the transaction that f is given. Where transactions are
	// not SQL, so that f has no means to end its own, exec returns an error that is errors.ErrUnsupported for COMMIT,
	// ROLLBACK and BEGIN, and the rules about that check nothing.
	InTx func(ctx context.Context, f func(ctx context.Context, exec func(sql string) error) error) error
	// LoseEnd makes the request that ends the next transaction get no answer, after it was carried out if carriedOut, and
	// makes the store fail in whatever it asks after that, until heal is called. Nil: it cannot be made to, and the rule
	// about that checks nothing.
	LoseEnd func(t *testing.T, carriedOut bool) (heal func())
	// Occupy takes what InTx waits for before it calls f, such as all connections of a pool, until free is called. Nil: it
	// waits for nothing, and the rule about that checks nothing.
	Occupy func(t *testing.T) (free func())
	// Begin begins a transaction as a user's program does. Only RunCompleteTx calls it.
	Begin func(ctx context.Context) (UserTx, error)
	// TooLarge is a number of bytes that the store will never take as a result: see Harness.TooLarge.
	TooLarge int
	// Rows counts what is committed in the table storetest_rows, which has one column, of text, and is empty at first.
	Rows func(t *testing.T) int
}

// insertRow is what the work writes.
const insertRow = "INSERT INTO storetest_rows VALUES ('row')"

// txRule is one sentence about InTx and the code that checks it.
type txRule struct {
	name, sentence string
	check          func(k *txKit)
}

// RunInTx checks each rule about a store's InTx in a subtest.
func RunInTx(t *testing.T, h TxHarness) {
	t.Helper()
	runTx(t, h, txRules())
}

func runTx(t *testing.T, h TxHarness, rules []txRule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("the rule: %s", r.sentence)
				}
			}()
			k := &txKit{T: t, store: h.Open(t)}
			k.guard = retrysafe.New(k.store.Store, retrysafe.Options{})
			t.Cleanup(func() { _ = k.guard.Shutdown(context.Background()) })
			r.check(k)
		})
	}
}

// txKit is what a rule works with.
type txKit struct {
	*testing.T
	store TxStore
	guard *retrysafe.Guard
}

// inTx is a function as InTx takes it.
type inTx = func(ctx context.Context, exec func(sql string) error) error

// writeThen returns a function that writes a row, and then does something else.
func writeThen(more inTx) inTx {
	return func(ctx context.Context, exec func(string) error) error {
		if err := exec(insertRow); err != nil {
			return err
		}
		return more(ctx, exec)
	}
}

func write(_ context.Context, exec func(string) error) error { return exec(insertRow) }

// takeOver makes another attempt take over the key of a.
func (k *txKit) takeOver(ctx context.Context, a *retrysafe.Attempt) {
	k.Helper()
	p := retrysafe.ClaimParams{Key: a.Key(), Owner: retrysafe.NewOwner(), Lease: time.Hour, TakeOver: true}
	if err := k.store.Extend(ctx, a.Control().Lease(), 0); err != nil {
		k.Fatal(err)
	}
	if c, err := k.store.Claim(ctx, p); err != nil || c.Verdict != retrysafe.Acquired {
		k.Fatalf("take over: got %v, %v", c.Verdict, err)
	}
}

// writeInTx is work that writes one row in a transaction.
func (k *txKit) writeInTx(ctx context.Context, _ *retrysafe.Attempt) error {
	return k.store.InTx(ctx, write)
}

// do runs work under a key. It reports whether the work ran, and returns what the caller is told.
func (k *txKit) do(id string, work func(ctx context.Context, a *retrysafe.Attempt) error) (ran bool, err error) {
	k.Helper()
	_, err = retrysafe.Do(context.Background(), k.guard, retrysafe.Request{Key: keyOf(id)},
		func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
			ran = true
			if err := retrysafe.SetResult(ctx, "answer"); err != nil {
				return "", err
			}
			return "answer", work(ctx, a)
		})
	return ran, err
}

// releasing runs a function in a transaction, and says of each failure that nothing has happened, as many programs
// do. It returns what InTx returned.
func (k *txKit) releasing(id string, f inTx) (failure error) {
	k.Helper()
	_, _ = k.do(id, func(ctx context.Context, _ *retrysafe.Attempt) error {
		failure = k.store.InTx(ctx, f)
		return retrysafe.Retryable(failure)
	})
	return failure
}

// rows expects so many.
func (k *txKit) rows(want int) {
	k.Helper()
	if got := k.store.Rows(k.T); got != want {
		k.Errorf("got %d rows, want %d", got, want)
	}
}

// runs expects the work of a key to run, and to commit one row.
func (k *txKit) runs(id string) {
	k.Helper()
	before := k.store.Rows(k.T)
	ran, err := k.do(id, k.writeInTx)
	if !ran || err != nil {
		k.Errorf("%s: ran %v, got %v; want it to run", id, ran, err)
	}
	k.rows(before + 1)
}

// done expects the key to be done.
func (k *txKit) done(id string) {
	k.Helper()
	ran, err := k.do(id, func(context.Context, *retrysafe.Attempt) error { return nil })
	if ran || err != nil {
		k.Errorf("%s: ran %v, got %v; want the answer", id, ran, err)
	}
}

// notDone expects the key not to be done; and if something of it was committed, that its work does not run again.
func (k *txKit) notDone(id string) {
	k.Helper()
	rows := k.store.Rows(k.T)
	ran, err := k.do(id, func(context.Context, *retrysafe.Attempt) error {
		return retrysafe.Retryable(errors.New("look only"))
	})
	switch {
	case !ran && err == nil:
		k.Errorf("%s: done, with %d rows", id, rows)
	case ran && rows > 0:
		k.Errorf("%s: its work runs again, with %d rows there", id, rows)
	}
}

// watch returns the channel of a watch of a key. For a store that is no Watcher it holds a value already.
func (k *txKit) watch(id string) <-chan struct{} {
	k.Helper()
	w, ok := k.store.Store.(retrysafe.Watcher)
	if !ok {
		changed := make(chan struct{}, 1)
		changed <- struct{}{}
		return changed
	}
	return watch(k.Context(), k.T, w, keyOf(id))
}

// inspect returns the body and the names of the steps of a key's only record, if the store is an Inspector.
func (k *txKit) inspect(id string) (body string, steps []string, ok bool) {
	k.Helper()
	i, ok := k.store.Store.(retrysafe.Inspector)
	if !ok {
		return "", nil, false
	}
	found, err := i.Inspect(k.Context(), keyOf(id).Digest())
	if err != nil || len(found) != 1 {
		k.Fatalf("Inspect: got %d records, %v; want one", len(found), err)
	}
	for _, s := range found[0].Steps {
		steps = append(steps, s.Name)
	}
	return string(found[0].Result.Body), steps, true
}

// unclaimable is a store whose claims fail.
type unclaimable struct{ retrysafe.Store }

func (unclaimable) Claim(context.Context, retrysafe.ClaimParams) (retrysafe.Claim, error) {
	return retrysafe.Claim{}, errors.New("the store is down")
}

func keyOf(id string) retrysafe.Key { return retrysafe.Key{Scope: "tenant", ID: id} }

var errOfWork = errors.New("the work's error")
