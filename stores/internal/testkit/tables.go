package testkit

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Tables is a store on an SQL server, with what its tables hold. Statements write the name of a table in braces:
// {{claims}}, {{steps}}, and the view {{records}}.
type Tables struct {
	Store interface {
		retrysafe.Store
		retrysafe.Sweeper
		retrysafe.Purger
	}
	// Age lets time pass.
	Age func(d time.Duration)
	// Execute executes a statement, and Value reads its one value as text or bytes.
	Execute func(text string)
	Value   func(text string) []byte
	// Member is the member b of the column json, which is an object.
	Member string
}

// RunTables checks in subtests what the stores on SQL servers have in common. open returns an empty store.
func RunTables(t *testing.T, open func(t *testing.T) Tables) {
	for name, rule := range map[string]func(*testing.T, Tables){
		"a sweep is bounded":                  sweepIsBounded,
		"a sweep deletes the steps of Purge":  sweepDeletesTheStepsOfPurge,
		"a sweep leaves leases that run":      sweepLeavesRunningLeases,
		"the view shows answers as they were": viewShowsAnswers,
		"the view shows states":               viewShowsStates,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule(t, open(t))
		})
	}
}

// A pass that takes several transactions ends at its limit, and takes as many as it may.
func sweepIsBounded(t *testing.T, s Tables) {
	CompleteMany(t, s.Store, 650)
	s.Age(25 * time.Hour)
	for i, want := range []int{300, 300, 50, 0} {
		if got := Sweep(t, s.Store, 300); got != want {
			t.Errorf("pass %d swept %d, want %d", i, got, want)
		}
	}
}

// The steps that Purge adds go with their records: those of the newest, and those of one that stands among the older
// ones.
func sweepDeletesTheStepsOfPurge(t *testing.T, s Tables) {
	keep := retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: 24 * time.Hour}
	for _, id := range []string{"newest", "older"} {
		l := Acquire(t, s.Store, id)
		if err := s.Store.Complete(t.Context(), l, retrysafe.Result{}, keep); err != nil {
			t.Fatal(err)
		}
		if s.Age(2 * time.Hour); id == "older" {
			if err := s.Store.Release(t.Context(), Acquire(t, s.Store, id)); err != nil {
				t.Fatal(err)
			}
		}
		step := retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "purge", Data: []byte("why")}
		if err := s.Store.Purge(t.Context(), l.Key.Digest(), l.Fence, step); err != nil {
			t.Fatal(err)
		}
	}
	const steps = "SELECT CONCAT(COUNT(*), '') FROM {{steps}}"
	if n := s.Value(steps); string(n) != "2" {
		t.Errorf("%s steps before the sweep, want 2", n)
	}
	s.Age(25 * time.Hour)
	Sweep(t, s.Store, 100)
	if n := s.Value(steps); string(n) != "0" {
		t.Errorf("%s steps are left", n)
	}
}

// A record whose lease was extended beyond its minute is looked at again later, and not deleted.
func sweepLeavesRunningLeases(t *testing.T, s Tables) {
	l := Acquire(t, s.Store, "k")
	if err := s.Store.Extend(t.Context(), l, 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	s.Execute("UPDATE {{claims}} SET sweep_at = 5") // as if the minute of the first lease had come
	if got := Sweep(t, s.Store, 10); got != 0 {
		t.Errorf("swept %d, want nothing", got)
	}
	at, err := strconv.ParseInt(string(s.Value("SELECT CONCAT(sweep_at, '') FROM {{claims}}")), 10, 64)
	if tomorrow := time.Now().Add(24*time.Hour).Unix() / 60; err != nil || at <= tomorrow {
		t.Errorf("it is due in minute %d, %v; want a later one than %d", at, err, tomorrow)
	}
	if err := Complete(s.Store, l); err != nil {
		t.Error(err)
	}
}

// The view shows answers to people, and changes nothing of them.
func viewShowsAnswers(t *testing.T, s Tables) {
	for i, c := range []struct{ body, json string }{
		{`{"b": 1, "a":2, "a" : 1.50}`, `{"b": 1, "a":2, "a" : 1.50}`},
		{` "\u0000ü" `, ` "\u0000ü" `},
		{"no JSON", ""},
		{"\xff\x00", ""},
		{"\"\xff\"", ""}, // a server might show it as "?"
		{"", ""},
	} {
		id := fmt.Sprint("id ", i)
		r := retrysafe.Result{Code: 201, Body: []byte(c.body)}
		if err := s.Store.Complete(t.Context(), Acquire(t, s.Store, id), r, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
		from := fmt.Sprintf(" FROM {{records}} WHERE id = '%s'", id)
		if got := s.Value("SELECT body" + from); string(got) != c.body {
			t.Errorf("body = %q, want %q", got, c.body)
		}
		if got := s.Value("SELECT CONCAT_WS('', json)" + from); string(got) != c.json {
			t.Errorf("json of %q = %q, want %q", c.body, got, c.json)
		}
	}
	if got := s.Value("SELECT " + s.Member + " FROM {{records}} WHERE id = 'id 0'"); string(got) != "1" {
		t.Errorf("b in json = %q, want 1", got)
	}
}

func viewShowsStates(t *testing.T, s Tables) {
	ctx := context.Background()
	Acquire(t, s.Store, "running")
	if err := s.Store.Extend(ctx, Acquire(t, s.Store, "gone"), 0); err != nil {
		t.Fatal(err)
	}
	if err := Complete(s.Store, Acquire(t, s.Store, "paid")); err != nil {
		t.Fatal(err)
	}
	failed := retrysafe.Result{Failed: true, Code: 3}
	if err := s.Store.Complete(ctx, Acquire(t, s.Store, "broken"), failed, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"running": "pending tenant", "gone": "abandoned tenant", "paid": "succeeded tenant", "broken": "failed tenant",
	} {
		if got := s.Value("SELECT CONCAT(state, ' ', scope) FROM {{records}} WHERE id = '" + id + "'"); string(got) != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
