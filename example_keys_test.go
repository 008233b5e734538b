package retrysafe_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// An invoice is paid once; the reference is for paying it again on purpose.
func ExampleNaturalID() {
	body := []byte(`{"invoice":"2026-0042","reference":"second try"}`)
	invoice, ok, err := fingerprint.JSONField(body, "/invoice")
	if err != nil || !ok {
		fmt.Println("refuse the request: it names no invoice")
		return
	}
	reference, _, _ := fingerprint.JSONField(body, "/reference")
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
