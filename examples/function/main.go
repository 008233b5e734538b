// Command function guards a job without HTTP: the salaries of a month are paid once, however often the job is started.
//
//	go run ./examples/function 2026-11 420000
//
// Start it again: the same receipt, and no second payment. Change the amount: refused.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// receipt is the result that every start of the job gets.
type receipt struct {
	Payment string
	Cents   int64
}

// transferFunc moves the money. The reference is the same on every attempt for the same month, so that a bank that
// recognises references does not transfer twice.
type transferFunc func(ctx context.Context, reference string, cents int64) (payment string, err error)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: function MONTH CENTS")
	}
	cents, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("CENTS: %w", err)
	}
	store, err := sqlitestore.Open("jobs.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	guard := newGuard(store)
	r, err := paySalaries(ctx, guard, printTransfer, args[0], cents)
	if err == nil {
		fmt.Printf("%s: paid %d cents, payment %s\n", args[0], r.Cents, r.Payment)
	}
	return errors.Join(err, guard.Shutdown(ctx), store.Close())
}

// newGuard keeps keys for as long as the job may be started again by mistake.
func newGuard(store retrysafe.Store) *retrysafe.Guard {
	const twoYears = 2 * 366 * 24 * time.Hour
	return retrysafe.New(store, retrysafe.Options{
		Policy: retrysafe.Policy{Retention: retrysafe.Retention{Replay: twoYears}},
	})
}

func paySalaries(ctx context.Context, guard *retrysafe.Guard, transfer transferFunc, month string,
	cents int64,
) (receipt, error) {
	request := retrysafe.Request{
		Key:         retrysafe.Key{Scope: "salaries", ID: month},
		Fingerprint: fingerprint.New("salaries1", nil).Sum(month, strconv.FormatInt(cents, 10)),
	}
	return retrysafe.Do(ctx, guard, request, func(ctx context.Context, a *retrysafe.Attempt) (receipt, error) {
		payment, err := transfer(ctx, a.ChildKey("transfer"), cents)
		if err != nil {
			// The transfer may have happened. Starting the job again is refused until an operator has resolved the
			// key.
			return receipt{}, retrysafe.Unknown(fmt.Errorf("transfer: %w", err))
		}
		return receipt{Payment: payment, Cents: cents}, nil
	})
}

// printTransfer is a fake bank.
func printTransfer(_ context.Context, reference string, cents int64) (string, error) {
	fmt.Printf("transferring %d cents under reference %s\n", cents, reference)
	return rand.Text(), nil
}
