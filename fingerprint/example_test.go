package fingerprint_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe/fingerprint"
)

func ExampleCanonicalJSON() {
	body, err := fingerprint.CanonicalJSON([]byte(`{ "currency": "EUR", "amount": 10.00 }`))
	fmt.Println(string(body), err)
	// Output: {"amount":10.00,"currency":"EUR"} <nil>
}

func ExampleFields_Canonical() {
	body := []byte(`{"amount":100,"currency":"EUR","sent_at":"2026-11-20T09:00:00Z"}`)
	chosen, _ := fingerprint.Fields{Include: []string{"/amount", "/currency"}}.Canonical(body)
	rest, _ := fingerprint.Fields{Exclude: []string{"/sent_at"}}.Canonical(body)
	fmt.Println(string(chosen))
	fmt.Println(string(rest))
	// Output:
	// {"/amount":100,"/currency":"EUR"}
	// {"amount":100,"currency":"EUR"}
}

func ExampleJSONPart() {
	algorithm := fingerprint.New("json1", nil)
	first := algorithm.Sum("POST", "/payments", fingerprint.JSONPart([]byte(`{"a":1,"b":2}`), fingerprint.Fields{}))
	retry := algorithm.Sum("POST", "/payments", fingerprint.JSONPart([]byte(`{"b":2, "a":1}`), fingerprint.Fields{}))
	other := algorithm.Sum("POST", "/payments", fingerprint.JSONPart([]byte(`{"a":1,"b":3}`), fingerprint.Fields{}))
	fmt.Println(first.Matches(retry), first.Matches(other))
	// Output: true false
}
