package draft

import "testing"

// Values get a generator where they may change without changing what is meant, and nowhere else.
func TestGenerators(t *testing.T) {
	const a, b = "0b7c9a0e-7d1c-4d7e-9a51-000000000001", "0b7c9a0e-7d1c-4d7e-9a51-000000000002"
	for _, c := range []struct{ name, body, want string }{
		{"an amount", `{"amount": 500, "currency": "EUR"}`, `{"amount": {{amount}}, "currency": "EUR"}`},
		{"an amount with decimals", `{"amount":{"value":10.50}}`, `{"amount":{"value":{{amount}}.50}}`},
		{"an amount that is a text", `{"total_price":"10.00"}`, `{"total_price":"{{amount}}.00"}`},
		{
			"the same amount twice", `{"amount":5,"lines":[{"price":5}]}`,
			`{"amount":{{amount}},"lines":[{"price":{{amount}}}]}`,
		},
		{
			"amounts that have to fit", `{"total":7,"lines":[{"price":5},{"price":2}]}`,
			`{"total":7,"lines":[{"price":5},{"price":2}]}`,
		},
		{"nothing, and less", `{"amount":0,"discount_amount":-5}`, `{"amount":0,"discount_amount":-5}`},
		{"a number that is none", `{"amount":1e3,"amounts":[true]}`, `{"amount":1e3,"amounts":[true]}`},
		{"an identifier of its own", `{"id":"` + a + `"}`, `{"id":"{{uuid}}"}`},
		{
			"a reference", `{"merchant_reference":"` + a + `","externalId":"` + b + `"}`,
			`{"merchant_reference":"{{uuid}}","externalId":"{{uuid}}"}`,
		},
		{
			"what exists already", `{"customer_id":"` + a + `","card":{"id":"` + b + `"}}`,
			`{"customer_id":"` + a + `","card":{"id":"` + b + `"}}`,
		},
		{
			"a note, if there is nothing else", `{"currency":"EUR","note":"two \"teas\""}`,
			`{"currency":"EUR","note":"two \"teas\" {{seq}}"}`,
		},
		{"a note beside an amount", `{"amount":1,"note":"tea"}`, `{"amount":{{amount}},"note":"tea"}`},
		{"a member that is the key", `{"idempotency_key":"k","amount":1}`, `{"amount":{{amount}}}`},
		{"a key at the end", `{"a":1, "ClientToken":"k"}`, `{"a":1}`},
		{"a key alone", `{"ClientToken":"k"}`, `{}`},
		{
			"white space", "{\n  \"a\" : [ 1, {\"amount\" :\t12 } ]\n}\n",
			"{\n  \"a\" : [ 1, {\"amount\" :\t{{amount}} } ]\n}\n",
		},
		{"a form", "amount=2000&currency=usd", "amount={{amount}}&currency=usd"},
		{"a form with nested names", "item%5Bprice%5D=10&reference=" + a, "item%5Bprice%5D={{amount}}&reference={{uuid}}"},
		{"a form's note", "a=b&description=tea+and+cake&c=", "a=b&description=tea+and+cake+{{seq}}&c="},
		{"something else", "<amount>5</amount>", "<amount>5</amount>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Draft{Source: "a test", Target: "http://h", Method: "POST", Path: "/", Body: c.body}
			d.lines = []line{{"Content-Type", "application/x-www-form-urlencoded"}}
			d.complete()
			want(t, "body", d.Body, c.want)
			want(t, "a note that nothing changes", len(d.notes) > 0, !generated.MatchString(c.want))
		})
	}
}
