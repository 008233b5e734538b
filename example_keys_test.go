package retrysafe_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The work is done by a service of its own, which completes the key in its own transaction.
func ExampleLease_Token() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "tenant-17", ID: "pay-1"}}
	_, _ = guard.Do(context.Background(), request, func(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		token := a.Control().Lease().Token()
		fmt.Println("send", len(token), "characters to the service, for SELECT retrysafe.complete($1, $2)")
		return retrysafe.Result{Code: 201}, nil
	})
	// Output: send 57 characters to the service, for SELECT retrysafe.complete($1, $2)
}

// An invoice is paid once; the reference is for paying it again on purpose.
func ExampleNaturalID() {
	body := []byte(`{"invoice":"2026-0042","reference":"second try"}`)
	invoice, ok, err := fingerprint.JSONKey(body, "/invoice")
	if err != nil || !ok {
		fmt.Println("refuse the request: it names no invoice")
		return
	}
	reference, _, _ := fingerprint.JSONKey(body, "/reference")
	fmt.Println(retrysafe.NaturalID("pay invoice", invoice, reference))
	// Output: e92baa26ff7eeca746bef0eb1579cc20196324a4a6abe9b259385995364c2313
}

// Two equal payments within the window are one, unless the client says that it means it.
func ExampleBodyHashID() {
	secret := []byte("the same in all processes")
	fields := fingerprint.Fields{Include: []string{"/amount", "/to"}}
	id := func(body, intent string) string {
		chosen, err := fields.Canonical([]byte(body))
		if err != nil {
			return "refuse the request: " + err.Error()
		}
		return retrysafe.BodyHashID(secret, intent, "POST /payments", string(chosen))
	}
	first := id(`{"to":"bob","amount":5,"at":"9:00"}`, "")
	again := id(`{"to":"bob","amount":5,"at":"9:01"}`, "")
	meant := id(`{"to":"bob","amount":5,"at":"9:01"}`, "once more")
	fmt.Println(first == again, first == meant)
	// Output: true false
}

func ExampleIntent() {
	charge := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	fmt.Println(charge, charge.Key())
	// Output: charge(order-17) 7de5a88f-fc6a-874f-bc15-3a64d50690bf
}

// A caller that has only the key asks what became of its operation, without running it.
func ExampleGuard_ExplainKey() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	defer guard.Shutdown(context.Background())
	key := retrysafe.Key{Scope: "shop", ID: "order-17"}
	fmt.Println(guard.ExplainKey(context.Background(), key.Digest()).Situation == retrysafe.SituationKeyNotFound)
	_, _ = guard.Do(context.Background(), retrysafe.Request{Key: key},
		func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			return retrysafe.Result{Body: []byte("paid")}, nil
		})
	advice := guard.ExplainKey(context.Background(), key.Digest())
	fmt.Println(advice.Executed, string(advice.Record.Result.Body))
	// Output:
	// true
	// yes paid
}
