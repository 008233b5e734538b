package retrysafe_test

import (
	"encoding"
	"reflect"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// What a policy writes as its text it reads back, and what is refused leaves it as it was.
//
// Seen to fail with AmbiguousPolicy(9) written as String has it, which is "unknown" and reads as AmbiguousUnknown; with
// "reconcile" accepted, which would call a function that is nil; and with Wait accepted without a unit.
func TestTheTextOfPolicies(t *testing.T) {
	for _, c := range []struct {
		policy  any
		accepts string
		refuses string
	}{
		{new(retrysafe.InFlightPolicy), "reject wait:5s wait:1m30s wait:0s", "Reject wait wait: wait:5 wait:-1s status"},
		{new(retrysafe.AbandonedPolicy), "refuse rerun rerun_tx", "reconcile rerun-tx Refuse"},
		{new(retrysafe.StoreErrorPolicy), "closed open", "fail store_error"},
		{new(retrysafe.AmbiguousPolicy), "store release unknown", "unknown-then"},
	} {
		to, from := c.policy.(encoding.TextUnmarshaler), c.policy.(encoding.TextMarshaler)
		for _, text := range append(strings.Fields(c.accepts), "") {
			err := to.UnmarshalText([]byte(text))
			got, marshalErr := from.MarshalText()
			if err != nil || marshalErr != nil || string(got) != text {
				t.Errorf("%T: %q reads back as %q, %v, %v", c.policy, text, got, err, marshalErr)
			}
			if isZero := reflect.ValueOf(c.policy).Elem().IsZero(); isZero != (text == "") {
				t.Errorf("%T: %q is zero: %v", c.policy, text, isZero)
			}
		}
		last := strings.Fields(c.accepts)[0]
		if err := to.UnmarshalText([]byte(last)); err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Fields(c.refuses) {
			err := to.UnmarshalText([]byte(text))
			if err == nil || !strings.Contains(err.Error(), `"`+text+`"`) {
				t.Errorf("%T: %q is accepted, or the error does not show it: %v", c.policy, text, err)
			}
			if got, _ := from.MarshalText(); string(got) != last {
				t.Errorf("%T: %q is refused and leaves %q", c.policy, text, got)
			}
		}
	}
	if text, err := retrysafe.AmbiguousPolicy(9).MarshalText(); err == nil {
		t.Errorf("a policy that does not exist is %q", text)
	}
	if text, _ := retrysafe.Reconcile(nil).MarshalText(); string(text) != "reconcile" {
		t.Errorf("Reconcile is %q", text)
	}
}

// Every policy that is accepted has a text that reads back as the same policy and the same text; what is refused leaves
// the policy as it was. Seen to fail with "Truncate" to seconds of the limit in MarshalText, and with *p set before
// "reconcile" is refused.
func FuzzPolicyText(f *testing.F) {
	for _, text := range []string{
		"", "reject", "wait:1h0.000000001s", "wait:-0s", "wait:9223372036854775807ns",
		"rerun_tx", "reconcile", "open", "store",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []struct{ read, again any }{
			{new(retrysafe.InFlightPolicy), new(retrysafe.InFlightPolicy)},
			{new(retrysafe.AbandonedPolicy), new(retrysafe.AbandonedPolicy)},
			{new(retrysafe.StoreErrorPolicy), new(retrysafe.StoreErrorPolicy)},
			{new(retrysafe.AmbiguousPolicy), new(retrysafe.AmbiguousPolicy)},
		} {
			if err := c.read.(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
				if !reflect.ValueOf(c.read).Elem().IsZero() {
					t.Errorf("%T: %q is refused and leaves %v", c.read, text, c.read)
				}
				continue
			}
			canonical, err := c.read.(encoding.TextMarshaler).MarshalText()
			if err == nil {
				err = c.again.(encoding.TextUnmarshaler).UnmarshalText(canonical)
			}
			if err != nil || !reflect.DeepEqual(c.read, c.again) {
				t.Errorf("%T: %q is written as %q, which reads as %v, %v", c.read, text, canonical, c.again, err)
			}
		}
	})
}
