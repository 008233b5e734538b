package retrysafe

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The text forms of policies, for configuration files and logs. The zero policy means the default and is the empty
// text. UnmarshalText reads what MarshalText returns, except for Reconcile, which has a function, and for a negative
// limit. It leaves the policy as it was if it returns an error; Policy.Validate finds limits that are too short.

var (
	abandonedNames  = []string{"refuse", "rerun", "reconcile", "rerun_tx"}
	storeErrorNames = []string{"closed", "open"}
	ambiguousNames  = []string{"store", "release", "unknown"}
)

// MarshalText implements encoding.TextMarshaler: "reject", or "wait:" and the limit.
func (p InFlightPolicy) MarshalText() ([]byte, error) {
	if p.kind == inFlightWait {
		return []byte("wait:" + p.max.String()), nil
	}
	return marshalName(p.kind, []string{"reject"})
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts "reject", and "wait:" with a limit, as in "wait:5s".
func (p *InFlightPolicy) UnmarshalText(text []byte) error {
	var q InFlightPolicy
	switch limit, waits := strings.CutPrefix(string(text), "wait:"); {
	case waits:
		d, err := time.ParseDuration(limit)
		if err != nil || d < 0 {
			return fmt.Errorf("retrysafe: the policy %q needs a limit with a unit, as in wait:5s", text)
		}
		q = Wait(d)
	case string(text) == "reject":
		q = Reject()
	case len(text) > 0:
		return fmt.Errorf("retrysafe: unknown policy %q; supported: reject, wait:5s", text)
	}
	*p = q
	return nil
}

// MarshalText implements encoding.TextMarshaler: "refuse", "rerun", "reconcile" or "rerun_tx".
func (p AbandonedPolicy) MarshalText() ([]byte, error) { return marshalName(p.kind, abandonedNames) }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts "refuse", "rerun" and "rerun_tx", but not "reconcile",
// which needs a function: see [Reconcile].
func (p *AbandonedPolicy) UnmarshalText(text []byte) error {
	var q AbandonedPolicy
	if err := unmarshalName(&q.kind, text, abandonedNames); err != nil {
		return err
	}
	if q.kind == abandonedReconcile {
		return fmt.Errorf("retrysafe: the policy %q needs a function; call Reconcile in the program", text)
	}
	*p = q
	return nil
}

// MarshalText implements encoding.TextMarshaler: "closed" or "open".
func (p StoreErrorPolicy) MarshalText() ([]byte, error) { return marshalName(p, storeErrorNames) }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts "closed" and "open".
func (p *StoreErrorPolicy) UnmarshalText(text []byte) error {
	return unmarshalName(p, text, storeErrorNames)
}

// MarshalText implements encoding.TextMarshaler: "store", "release" or "unknown".
func (p AmbiguousPolicy) MarshalText() ([]byte, error) { return marshalName(p, ambiguousNames) }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts "store", "release" and "unknown".
func (p *AmbiguousPolicy) UnmarshalText(text []byte) error {
	return unmarshalName(p, text, ambiguousNames)
}

// marshalName returns the name of a constant that counts from 1; nothing for the zero value.
func marshalName[T ~uint8](v T, names []string) ([]byte, error) {
	switch {
	case v == 0:
		return nil, nil
	case int(v) > len(names):
		return nil, fmt.Errorf("retrysafe: %d is no policy", v)
	}
	return []byte(names[v-1]), nil
}

// unmarshalName is the reverse of marshalName.
func unmarshalName[T ~uint8](to *T, text []byte, names []string) error {
	i := slices.Index(names, string(text))
	if i < 0 && len(text) > 0 {
		return fmt.Errorf("retrysafe: unknown policy %q; supported: %s", text, strings.Join(names, ", "))
	}
	*to = T(i + 1)
	return nil
}
