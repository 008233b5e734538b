package probe

import (
	"testing"
)

// A request that has a key and is given another has that one. Seen to fail with withoutFirst taken out.
func TestWithMember(t *testing.T) {
	for body, want := range map[string]string{
		`{"amount": 1}`:                `{"k":"new","amount": 1}`,
		`{}`:                           `{"k":"new"}`,
		`{"k":"o\"ld, {","amount": 1}`: `{"k":"new","amount": 1}`,
		`{"k":"old"}`:                  `{"k":"new"}`,
		`{"k":"old" , "amount": "k"}`:  `{"k":"new", "amount": "k"}`,
		`{"k":1,"amount": 1}`:          `{"k":"new","k":1,"amount": 1}`,
		`{"kk":"old","amount": 1}`:     `{"k":"new","kk":"old","amount": 1}`,
		`["k"]`:                        `["k"]`,
	} {
		if got := string(WithMember([]byte(body), "k", "new")); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}
