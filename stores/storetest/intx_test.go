package storetest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// faults are what a broken InTx may do, for each rule that one breaks.
var faults = map[string]string{
	"intx-too-large":         "a result that is too large fails the transaction",
	"intx-commits-both":      "the rows are forgotten",
	"intx-error":             "the rows are kept after an error",
	"intx-panic":             "the rows are kept after a panic",
	"intx-other-store":       "an error of the completion is ignored",
	"intx-lease-lost":        "a lost lease is ignored",
	"intx-completed-already": "a completion that is there already counts",
	"intx-late":              "a lease that has run out is lost",
	"intx-steps":             "steps inside are saved at once",
	"intx-no-attempt":        "f is called without an attempt",
	"intx-no-result":         "the rows are committed before the result",
	"intx-ignored-error":     "a failed statement takes the rows with it",
	"intx-forgets":           "RolledBack is not called",
	"intx-unprotected":       "an attempt without protection is refused",
	"intx-storm":             "a second transaction at once is refused",
	"intx-ended-inside/ROLLBACK,_then_returns_<nil>":          "an ended transaction is completed",
	"intx-ended-inside/COMMIT,_then_returns_the_work's_error": "a committed transaction is not in doubt",
	"intx-ended-inside/ROLLBACK;_BEGIN,_then_returns_<nil>":   "what follows an ended transaction is trusted",
	"intx-inside-intx":          "the engine is not told that a transaction begins",
	"intx-twice":                "the engine is not told that a transaction begins",
	"intx-step-outside":         "the engine is not told that a transaction begins",
	"intx-after-rollback":       "a transaction that was rolled back is the attempt's only one",
	"intx-waits":                "a transaction begins although its time is over",
	"intx-in-doubt/carried_out": "a lost answer counts as a refusal",
}

const faultEnv = "STORETEST_FAULT"

// Each rule about InTx fails with a store that has the fault meant for it: this test sees it fail, in another process.
func TestEachRuleAboutInTxCanFail(t *testing.T) {
	if fault, ok := os.LookupEnv(faultEnv); ok {
		storetest.RunInTx(t, storetest.TxHarness{Open: func(*testing.T) storetest.TxStore {
			return newTxStore(fault).
				harness()
		}})
		return
	}
	seen := runWith(t, "intx-", "")
	if i := slices.IndexFunc(slices.Collect(maps.Keys(seen)), func(rule string) bool { return seen[rule] }); i >= 0 {
		t.Fatalf("without a fault rules fail: %v", seen)
	}
	broken := map[string]bool{}
	for rule, fault := range faults {
		name, _, _ := strings.Cut(rule, "/")
		if got := runWith(t, name, fault); !got[rule] {
			t.Errorf("%s, and %s does not fail", fault, rule)
		}
		broken[name] = true
	}
	for rule := range seen {
		if !broken[strings.SplitN(rule, "/", 2)[0]] {
			t.Errorf("no fault is meant for %s", rule)
		}
	}
}

// runWith runs the rules whose names begin with prefix in another process of this test, on a store with a fault, and
// returns which of them failed.
func runWith(t *testing.T, prefix, fault string) (failed map[string]bool) {
	t.Helper()
	top, _, _ := strings.Cut(prefix, "/")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$/^"+top, "-test.v")
	cmd.Env = append(os.Environ(), faultEnv+"="+fault)
	out, _ := cmd.CombinedOutput() // it fails if a rule does
	failed = map[string]bool{}
	line := regexp.MustCompile(`--- (PASS|FAIL): \w+/(` + prefix + `\S*) \(`)
	for _, line := range line.FindAllStringSubmatch(string(out), -1) {
		failed[line[2]] = line[1] == "FAIL"
	}
	if len(failed) == 0 {
		t.Fatalf("no rule ran with %q:\n%s", fault, out)
	}
	return failed
}

// txStore is a store with a table in memory, and transactions for both, with a fault.
type txStore struct {
	*memstore.Store
	fault string

	mu   sync.Mutex
	rows int
	open int // transactions
	// occupied is closed when a transaction may begin; nil: at once.
	occupied chan struct{}
	// lose is what becomes of the next completion.
	lose func(commit func() error) error
}

// tooLarge is a size that no txStore takes.
const tooLarge = 1 << 16

func newTxStore(fault string) *txStore {
	return &txStore{Store: memstore.New(memstore.Options{}), fault: fault}
}

func (s *txStore) harness() storetest.TxStore {
	return storetest.TxStore{
		Store: s, InTx: s.inTx, LoseEnd: s.loseEnd, TooLarge: tooLarge,
		Rows: func(*testing.T) int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.rows
		},
		Occupy: func(*testing.T) (free func()) {
			s.occupied = make(chan struct{})
			return func() { close(s.occupied) }
		},
	}
}

func (s *txStore) loseEnd(_ *testing.T, carriedOut bool) (heal func()) {
	s.lose = func(commit func() error) error {
		err := errors.New("the answer was lost")
		if carriedOut {
			err = errors.Join(err, commit())
		}
		if s.fault == "a lost answer counts as a refusal" {
			return err
		}
		return retrysafe.Unknown(err)
	}
	return func() { s.lose = nil }
}

func (s *txStore) inTx(ctx context.Context, f func(context.Context, func(string) error) error) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	switch {
	case !ok && s.fault == "f is called without an attempt":
		return f(ctx, func(string) error { return nil })
	case ok && !a.Protected() && s.fault == "an attempt without protection is refused":
		return retrysafe.ErrNoAttempt
	}
	tx := &memoryTx{store: s, open: true}
	if s.fault == "the engine is not told that a transaction begins" && ok {
		if err := f(ctx, tx.exec); err != nil {
			return err
		}
		return a.Control().CompleteIn(s, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
			return tx.Complete(l, nil, r, keep)
		})
	}
	s.mu.Lock()
	s.open++
	refused := s.open > 1 && s.fault == "a second transaction at once is refused"
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}()
	if refused {
		return errors.New("busy")
	}
	if s.fault == "the rows are kept after a panic" {
		defer func() {
			if p := recover(); p != nil {
				_ = tx.Commit()
				panic(p)
			}
		}()
	}
	work := func(inside context.Context, _ *memoryTx) error {
		if s.fault == "steps inside are saved at once" {
			inside = ctx
		}
		time.Sleep(time.Millisecond) // so that transactions overlap
		err := f(inside, tx.exec)
		if err != nil && s.fault == "the rows are kept after an error" ||
			err == nil && s.fault == "the rows are committed before the result" {
			_ = tx.Commit()
		}
		return err
	}
	if s.fault == "RolledBack is not called" {
		if err := work(ctx, tx); err != nil {
			return err
		}
		work = func(context.Context, *memoryTx) error { return nil }
	}
	begin := func(ctx context.Context, _ *retrysafe.Attempt) (*memoryTx, error) {
		if s.occupied == nil {
			return tx, nil
		}
		select {
		case <-s.occupied:
		case <-ctx.Done():
			if s.fault != "a transaction begins although its time is over" {
				return nil, ctx.Err()
			}
		}
		return tx, nil
	}
	err := storekit.InTx(ctx, s, begin, work)
	if err != nil && s.fault == "a transaction that was rolled back is the attempt's only one" {
		_, _, _ = a.Control().BeginTx(ctx)
	}
	return err
}

// memoryTx is one transaction. Once f has ended it, each statement is committed at once until f says BEGIN.
type memoryTx struct {
	store            *txStore
	pending          int // rows
	open             bool
	ended, committed bool // by f
}

func (t *memoryTx) exec(sql string) error {
	switch {
	case sql == "BEGIN":
		t.open = true
	case sql == "ROLLBACK":
		t.open, t.ended, t.pending = false, true, 0
	case sql == "COMMIT":
		t.open, t.ended, t.committed = false, true, true
		return t.Commit()
	case !strings.Contains(sql, "storetest_rows"):
		if t.store.fault == "a failed statement takes the rows with it" {
			t.pending = 0
		}
		return errors.New("no such table")
	default:
		t.pending++
		if !t.open {
			t.committed = true
			return t.Commit()
		}
	}
	return nil
}

func (t *memoryTx) Intact() error {
	switch {
	case !t.ended, t.store.fault == "an ended transaction is completed",
		t.store.fault == "what follows an ended transaction is trusted" && t.open:
		return nil
	case t.committed && t.store.fault != "a committed transaction is not in doubt":
		return storekit.ErrEndedInside
	}
	return errors.New("rolled back inside InTx")
}

func (t *memoryTx) Complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention,
) error {
	if t.store.lose != nil {
		return t.store.lose(func() error { return errors.Join(t.complete(l, steps, r, keep), t.Commit()) })
	}
	err := t.complete(l, steps, r, keep)
	lost := errors.Is(err, retrysafe.ErrLeaseLost)
	if err != nil && t.store.fault != "an error of the completion is ignored" &&
		(!lost || t.store.fault != "a lost lease is ignored") {
		return err
	}
	return t.Commit()
}

func (t *memoryTx) complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention,
) error {
	ctx, s := context.Background(), t.store
	switch {
	case len(r.Body) < tooLarge:
	case s.fault == "a result that is too large fails the transaction":
		return errors.New("too large")
	default:
		return retrysafe.ErrResultTooLarge
	}
	if s.fault == "a lease that has run out is lost" {
		if found, err := s.Inspect(ctx, l.Key.Digest()); err != nil || len(found) == 0 || found[0].LeaseLeft == 0 {
			return retrysafe.ErrLeaseLost
		}
	}
	if s.fault != "a completion that is there already counts" {
		if err := s.Extend(ctx, l, time.Minute); err != nil { // which finds that the attempt has ended
			return err
		}
	}
	for _, step := range steps {
		if err := s.Checkpoint(ctx, l, step); err != nil {
			return err
		}
	}
	return s.Complete(ctx, l, r, keep)
}

func (t *memoryTx) Rollback() {}

func (t *memoryTx) Commit() error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.store.fault != "the rows are forgotten" {
		t.store.rows += t.pending
	}
	t.pending = 0
	return nil
}
