package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

type Receipt struct{ Charge string }

func Example() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	request := retrysafe.Request{
		Key:         retrysafe.Key{Scope: retrysafe.Scope("tenant-17"), ID: "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		Fingerprint: fingerprint.New("raw1", nil).Sum("POST", "/charges", `{"amount":4200}`),
	}
	for range 3 { // the client gets no answer and tries again
		receipt, err := retrysafe.Do(context.Background(), guard, request,
			func(context.Context, *retrysafe.Attempt) (Receipt, error) {
				fmt.Println("charging")
				return Receipt{Charge: "ch_1"}, nil
			})
		fmt.Println(receipt.Charge, err)
	}
	// Output:
	// charging
	// ch_1 <nil>
	// ch_1 <nil>
	// ch_1 <nil>
}

func ExampleGuard_Do() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}, Fingerprint: "raw1:order-1"}
	work := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		return retrysafe.Result{Code: 201, Body: []byte("created")}, nil
	}
	for range 2 {
		out, err := guard.Do(context.Background(), request, work)
		fmt.Printf("%d %s, replayed: %v, error: %v\n", out.Result.Code, out.Result.Body, out.Replayed, err)
	}
	request.Fingerprint = "raw1:order-2"
	_, err := guard.Do(context.Background(), request, work)
	fmt.Println(errors.Is(err, retrysafe.ErrMismatch))
	// Output:
	// 201 created, replayed: false, error: <nil>
	// 201 created, replayed: true, error: <nil>
	// true
}

func ExampleGuard_With() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{OnInFlight: retrysafe.Wait(10 * time.Second)},
	})
	payments := guard.With(retrysafe.Policy{
		Lease:     time.Minute,
		Retention: retrysafe.Retention{Replay: 72 * time.Hour, Key: 30 * 24 * time.Hour},
	})
	fmt.Println(payments.Policy().Lease, guard.Policy().Lease)
	// Output: 1m0s 30s
}

func ExampleStep() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, // safe: every effect is in a step
	})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "checkout-1"}}
	attempts := 0
	checkout := func(ctx context.Context, _ *retrysafe.Attempt) (Receipt, error) {
		receipt, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, childKey string) (Receipt, error) {
			step, _ := retrysafe.StepFrom(ctx)
			fmt.Println(step, "with key", childKey[:8])
			return Receipt{Charge: "ch_1"}, nil
		})
		if err != nil {
			return Receipt{}, err
		}
		if attempts++; attempts == 1 {
			return Receipt{}, retrysafe.Unknown(errors.New("the mail server does not answer"))
		}
		return receipt, nil
	}
	for range 2 {
		receipt, err := retrysafe.Do(context.Background(), guard, request, checkout)
		fmt.Println(receipt.Charge, errors.Is(err, retrysafe.ErrAbandoned))
	}
	// Output:
	// charge with key e1b8188e
	//  true
	// ch_1 false
}

func ExampleTerminalCode() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}}
	for range 2 {
		_, err := guard.Do(context.Background(), request,
			func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				return retrysafe.Result{}, retrysafe.TerminalCode(402, errors.New("card declined"))
			})
		if failure := (*retrysafe.Failure)(nil); errors.As(err, &failure) {
			fmt.Println(failure.Code, failure.Message)
		}
	}
	// Output:
	// 402 card declined
	// 402 card declined
}

func ExampleReconcile() {
	queryBank := func(_ context.Context, a *retrysafe.Attempt, _ retrysafe.Record) (*retrysafe.Result, error) {
		fmt.Println("attempt", a.Number(), "asks the bank")
		return &retrysafe.Result{Code: 201, Body: []byte("ch_1")}, nil
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{OnAbandoned: retrysafe.Reconcile(queryBank)},
	})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}}
	charge := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		return retrysafe.Result{}, retrysafe.Unknown(errors.New("connection reset"))
	}
	guard.Do(context.Background(), request, charge)
	out, err := guard.Do(context.Background(), request, charge)
	fmt.Println(string(out.Result.Body), err)
	// Output:
	// attempt 2 asks the bank
	// ch_1 <nil>
}

func ExampleGuard_Resolve() {
	ctx := context.Background()
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}}
	charge := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		return retrysafe.Result{}, retrysafe.Unknown(errors.New("connection reset"))
	}
	guard.Do(ctx, request, charge)

	known, err := guard.Resolve(ctx, request.Key.Digest(), retrysafe.Resolution{
		Action: retrysafe.ResolveComplete,
		Result: retrysafe.Result{Body: []byte("ch_1")},
		Reason: "charge 1 is in the bank's dashboard",
		By:     "ada",
	})
	fmt.Println(known.State, err)
	for _, decision := range known.Trail() {
		fmt.Println(decision.Action, "by", decision.By+":", decision.Reason)
	}
	out, err := guard.Do(ctx, request, charge)
	fmt.Println(string(out.Result.Body), err)
	// Output:
	// succeeded <nil>
	// complete by ada: charge 1 is in the bank's dashboard
	// ch_1 <nil>
}

func ExampleObserverFunc() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		SweepEvery: -1,
		Observer: retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
			fmt.Println(e.Kind, e.Attempt)
		}),
	})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}}
	for range 2 {
		guard.Do(context.Background(), request,
			func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				return retrysafe.Result{}, nil
			})
	}
	// Output:
	// attempt_started 1
	// work_succeeded 1
	// answer_replayed 1
}

func ExampleGuard_Explain() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	work := func(context.Context, *retrysafe.Attempt) (string, error) { return "paid", nil }
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}, Fingerprint: "raw1:order-1"}
	_, _ = retrysafe.Do(context.Background(), guard, request, work)

	request.Fingerprint = "raw1:order-2"
	_, err := retrysafe.Do(context.Background(), guard, request, work)
	advice := guard.Explain(err)
	fmt.Printf("%v: executed: %v, retryable: %v, new key required: %v\n",
		advice.Situation, advice.Executed, advice.Retryable, advice.NewKeyRequired)
	fmt.Println(advice.Title)
	fmt.Println(advice.Detail)
	// Output:
	// mismatch: executed: no, retryable: false, new key required: true
	// Idempotency-Key is already used
	// This key was first used for a different request. Use a new key for a new operation.
}

func ExampleAmbiguousPolicy_Apply() {
	status := 500 // says neither that the operation happened nor that it did not
	class := retrysafe.ClassAmbiguous

	var chosen retrysafe.AmbiguousPolicy // not set: the guard's policy decides
	once := retrysafe.Policy{}
	resumed := retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}
	fmt.Println(status, chosen.Or(once).Apply(class))
	fmt.Println(status, chosen.Or(resumed).Apply(class))
	// Output:
	// 500 store
	// 500 unknown
}

func ExampleGuard_WithObserver() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	guard = guard.WithObserver(retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
		fmt.Println(e.Kind)
	}))
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}}
	_, err := retrysafe.Do(context.Background(), guard, request,
		func(context.Context, *retrysafe.Attempt) (string, error) { return "paid", nil })
	fmt.Println(err)
	// Output:
	// attempt_started
	// work_succeeded
	// <nil>
}

// A program finds keys by their tags if its store, or the one inside of it, can.
func ExampleAs() {
	var store retrysafe.Store = memstore.New(memstore.Options{})
	finder, ok := retrysafe.As[retrysafe.Finder](store)
	if !ok {
		fmt.Println("this store keeps no tags")
		return
	}
	found, err := finder.Find(context.Background(), retrysafe.FindParams{Tag: "order=1234"})
	fmt.Println(len(found), err)
	// Output: 0 <nil>
}
