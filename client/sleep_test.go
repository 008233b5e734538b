package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/client"
)

// sleeper is a request whose machine sleeps once a reply was dropped: when the next attempt is due, the wall clock has
// gone on, and the monotonic one has not. So its intent is made older.
type sleeper struct {
	client.Exchange
	reply client.Reply
	slept time.Duration
	entry *client.Entry
	sent  int
}

func (*sleeper) Key() (string, error)                           { return "k", nil }
func (*sleeper) SetKey(key string, _ bool) (string, error)      { return key, nil }
func (*sleeper) Answer() (header map[string][]string, _ []byte) { return nil, nil }
func (s *sleeper) Discard()                                     { s.entry.BegunAt = s.entry.BegunAt.Add(-s.slept) }

func (s *sleeper) Send(_ context.Context, e *client.Entry) client.Reply {
	s.entry = e
	s.sent++
	return s.reply
}

// A machine that sleeps while the client waits does not send again after the horizon. Seen to fail with the horizon
// looked at only before the first attempt and before each wait: it was sent once more.
func TestNothingIsSentAfterASleepPastTheHorizon(t *testing.T) {
	away := errors.New("away")
	for _, c := range []struct {
		name   string
		signal client.Signal
		slept  time.Duration
		sent   int
		why    string // empty: nothing has run
	}{
		{"lost", client.Signal{Action: client.Again, Effect: client.MayHaveRun}, 9 * time.Hour, 1, client.GaveUpHorizon},
		{"lost, a nap", client.Signal{Action: client.Again, Effect: client.MayHaveRun}, time.Hour, 4, client.GaveUpAttempts},
		{"not sent", client.Signal{Action: client.Again, Effect: client.DidNothing}, 9 * time.Hour, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := client.NewEngine(client.Options{Retention: 24 * time.Hour, Budget: client.RetryBudget{Tokens: -1}})
				s := &sleeper{reply: client.Reply{Signal: c.signal, Err: away}, slept: c.slept}
				_, err := e.Do(t.Context(), client.Request{Method: "POST", Origin: "https://bank.example"}, s)
				var unknown *client.OutcomeUnknownError
				why := ""
				if errors.As(err, &unknown) {
					why = unknown.Why
				}
				if err == nil || s.sent != c.sent || why != c.why {
					t.Errorf("sent %d times, want %d; stopped because of %q, want %q: %v", s.sent, c.sent, why, c.why, err)
				}
			})
		})
	}
}
