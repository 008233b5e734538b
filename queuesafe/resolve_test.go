package queuesafe_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
)

func (k *kit) resolve(action retrysafe.ResolveAction) {
	k.Helper()
	key, err := k.consumer.Key(order(1))
	if err != nil {
		k.Fatal(err)
	}
	if _, err := k.guard.Resolve(k.ctx, key.Digest(),
		retrysafe.Resolution{Action: action, Reason: "looked it up"}); err != nil {
		k.Fatal(err)
	}
}

// Each way of resolving a key decides what becomes of its message.
func TestResolvedMessage(t *testing.T) {
	for action, want := range map[retrysafe.ResolveAction]queuesafe.Situation{
		retrysafe.ResolveComplete: queuesafe.Duplicate,
		retrysafe.ResolveFail:     queuesafe.Failed,
		retrysafe.ResolveRelease:  queuesafe.Processed,
	} {
		bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
			k.crash(order(1))
			k.want(k.handle(order(2), nil), queuesafe.Unknown, queuesafe.Later)
			k.resolve(action)
			k.want(k.handle(order(3), nil), want, want.Action())
		})
	}
}

// A message that a person has released is handled again, although its key has had its attempts and the person's claim
// counts as one. Seen to fail with Number in place of Tries: the message was poison at once.
func TestReleasedMessageGetsItsAttemptsAgain(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
		for range 3 {
			k.crash(order(1))
		}
		k.resolve(retrysafe.ResolveRelease)
		for range 3 {
			k.crash(order(1))
		}
		k.want(k.handle(order(4), nil), queuesafe.Poison, queuesafe.Dead)
	})
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
		for range 3 {
			k.crash(order(1))
		}
		k.resolve(retrysafe.ResolveRelease)
		k.want(k.handle(order(4), nil), queuesafe.Processed, queuesafe.Ack)
		k.wantRuns(1)
	})
}
