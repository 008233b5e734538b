package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A job without HTTP: the salaries of a month are paid once, however often the job is started. A program keeps its
// keys in a store that outlives it, for example sqlitestore.
func ExampleDo() {
	const twoYears = 2 * 366 * 24 * time.Hour // for as long as the job may be started again by mistake
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{Retention: retrysafe.Retention{Replay: twoYears}},
	})
	answerLost := false
	transfer := func(reference string, cents int64) (payment string, err error) {
		fmt.Println("transferring", cents, "cents under reference", reference[:8])
		if answerLost {
			return "", errors.New("connection reset")
		}
		return "payment 17", nil
	}
	paySalaries := func(month string, cents int64) (payment string, err error) {
		request := retrysafe.Request{
			Key:         retrysafe.Key{Scope: "salaries", ID: month},
			Fingerprint: fingerprint.New("salaries1", nil).Sum(month, strconv.FormatInt(cents, 10)),
		}
		return retrysafe.Do(context.Background(), guard, request,
			func(_ context.Context, a *retrysafe.Attempt) (string, error) {
				// The reference is the same in every attempt for the same month, so that a bank that recognises references does
				// not transfer twice.
				payment, err := transfer(a.ChildKey("transfer"), cents)
				if err != nil {
					// The transfer may have happened. Starting the job again is refused until an operator has resolved the key.
					return "", retrysafe.Unknown(fmt.Errorf("transfer: %w", err))
				}
				return payment, nil
			})
	}
	for range 2 {
		fmt.Println(paySalaries("2026-11", 420000))
	}
	_, err := paySalaries("2026-11", 1)
	fmt.Println("another amount is refused:", errors.Is(err, retrysafe.ErrMismatch))

	answerLost = true
	for range 2 {
		_, err := paySalaries("2026-12", 420000)
		fmt.Println("unknown, not transferred again:", errors.Is(err, retrysafe.ErrAbandoned))
	}
	// Output:
	// transferring 420000 cents under reference 7d852405
	// payment 17 <nil>
	// payment 17 <nil>
	// another amount is refused: true
	// transferring 420000 cents under reference 0bcab6ea
	// unknown, not transferred again: true
	// unknown, not transferred again: true
}
