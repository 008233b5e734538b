package retrysafe_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
)

func ExampleCanonicalJSON() {
	body, err := retrysafe.CanonicalJSON([]byte(`{ "currency": "EUR", "amount": 10.00 }`))
	fmt.Println(string(body), err)
	// Output: {"amount":10.00,"currency":"EUR"} <nil>
}

func ExampleFields_Canonical() {
	body := []byte(`{"amount":100,"currency":"EUR","sent_at":"2026-11-20T09:00:00Z"}`)
	chosen, _ := retrysafe.Fields{Include: []string{"/amount", "/currency"}}.Canonical(body)
	rest, _ := retrysafe.Fields{Exclude: []string{"/sent_at"}}.Canonical(body)
	fmt.Println(string(chosen))
	fmt.Println(string(rest))
	// Output:
	// {"/amount":100,"/currency":"EUR"}
	// {"amount":100,"currency":"EUR"}
}

func ExampleJSONPart() {
	prints := retrysafe.NewFingerprinter("json1", nil)
	first := prints.Sum("POST", "/payments", retrysafe.JSONPart([]byte(`{"a":1,"b":2}`), retrysafe.Fields{}))
	retry := prints.Sum("POST", "/payments", retrysafe.JSONPart([]byte(`{"b":2, "a":1}`), retrysafe.Fields{}))
	other := prints.Sum("POST", "/payments", retrysafe.JSONPart([]byte(`{"a":1,"b":3}`), retrysafe.Fields{}))
	fmt.Println(first.Matches(retry), first.Matches(other))
	// Output: true false
}

// An invoice is paid once; the reference is for paying it again on purpose.
func ExampleNaturalID() {
	body := []byte(`{"invoice":"2026-0042","reference":"second try"}`)
	invoice, ok, err := retrysafe.JSONField(body, "/invoice")
	if err != nil || !ok {
		fmt.Println("refuse the request: it names no invoice")
		return
	}
	reference, _, _ := retrysafe.JSONField(body, "/reference")
	fmt.Println(retrysafe.NaturalID("pay invoice", invoice, reference))
	// Output: e92baa26ff7eeca746bef0eb1579cc20196324a4a6abe9b259385995364c2313
}

// Two equal payments within the window are one, unless the client says that it means it.
func ExampleBodyHashID() {
	secret := []byte("the same in all processes")
	fields := retrysafe.Fields{Include: []string{"/amount", "/to"}}
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
