package retrysafetest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
)

// Handlers of messages that are as they should be pass, and each well-known mistake fails the test once, in words that
// lead to it. Seen to fail with retries, transient and killed taken out of CheckConsumer, one after the other.
func TestCheckConsumer(t *testing.T) {
	inTx := func(s *shop) queuesafe.Handler {
		return func(ctx context.Context, _ queuesafe.Message) error {
			return s.store.InTx(ctx, func(ctx context.Context) error {
				s.insert(ctx)
				return nil
			})
		}
	}
	plain := func(s *shop) queuesafe.Handler {
		return func(ctx context.Context, _ queuesafe.Message) error {
			s.insert(ctx)
			return nil
		}
	}
	key := queuesafe.KeyByHeader(queuesafe.KeyHeader)
	var keys atomic.Int64
	for name, c := range map[string]struct {
		policy  retrysafe.AbandonedPolicy
		handler func(*shop) queuesafe.Handler
		key     queuesafe.KeyFunc
		says    string
	}{
		"InTx, rerun tx": {retrysafe.RerunTx(), inTx, key, ""},
		"InTx, rerun":    {retrysafe.Rerun(), inTx, key, ""},
		"InTx, retryable": {retrysafe.Refuse(), func(s *shop) queuesafe.Handler {
			return func(ctx context.Context, m queuesafe.Message) error {
				return retrysafe.Retryable(inTx(s)(ctx, m))
			}
		}, key, ""},
		"plain, refuse": {retrysafe.Refuse(), plain, key, ""},
		"InTx, refuse":  {retrysafe.Refuse(), inTx, key, "a commit failed once"},
		"InTx, terminal": {retrysafe.RerunTx(), func(s *shop) queuesafe.Handler {
			return func(ctx context.Context, m queuesafe.Message) error {
				return retrysafe.Terminal(inTx(s)(ctx, m))
			}
		}, key, "a commit failed once"},
		"plain, rerun": {retrysafe.Rerun(), plain, key, "the process was killed"},
		"InTx after the effect": {retrysafe.Refuse(), func(s *shop) queuesafe.Handler {
			return func(ctx context.Context, m queuesafe.Message) error {
				s.orders.Add(1)
				return retrysafe.Retryable(s.store.InTx(ctx, func(context.Context) error { return nil }))
			}
		}, key, "has 2 effects, want 1"},
		"freed": {retrysafe.Refuse(), func(s *shop) queuesafe.Handler {
			return func(ctx context.Context, m queuesafe.Message) error {
				s.orders.Add(1)
				return retrysafe.Retryable(errors.New("busy"))
			}
		}, key, "got 503"},
		"a key for each delivery": {retrysafe.RerunTx(), inTx, func(queuesafe.Message) (string, error) {
			return string(rune('a' + keys.Add(1))), nil
		}, "2 different keys were claimed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{store: retrysafetest.NewStore()}
			s.guard = retrysafe.New(s.store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: c.policy}})
			consumer := queuesafe.New(s.guard, "billing", queuesafe.Options{Key: c.key})
			r := &recorder{TB: t}
			retrysafetest.CheckConsumer(r, retrysafetest.ConsumerSubject{
				Guard: s.guard, Consumer: consumer, Handler: c.handler(s), Effects: s.effects,
				NewMessage: func(key string) queuesafe.Message {
					return queuesafe.Message{Header: queuesafe.Header{queuesafe.KeyHeader: {key}}, Body: []byte("{}")}
				},
			})
			if says := strings.Join(r.failures, " and "); c.says == "" && says != "" ||
				!strings.Contains(says, c.says) || len(r.failures) > 1 {
				t.Errorf("it says %q, want %q", says, c.says)
			}
		})
	}
}
