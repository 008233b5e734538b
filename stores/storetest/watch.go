package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// wakeTime is how long a rule waits for a value. The tests of the rules shorten it.
var wakeTime = patience

// watch returns the channel of a watch that ends with the test.
func (k *kit) watch(id string) <-chan struct{} {
	k.Helper()
	return watch(k.ctx, k.T, k.store.(retrysafe.Watcher), params(id).Key)
}

// watch begins a watch. A Store that does not hear of others yet, as on a busy machine, says so: its callers poll
// meanwhile, and watch again.
func watch(ctx context.Context, t *testing.T, w retrysafe.Watcher, key retrysafe.Key) <-chan struct{} {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		changed, stop, err := w.Watch(ctx, key)
		if err == nil {
			t.Cleanup(stop)
			return changed
		}
		if time.Now().After(end) {
			t.Fatalf("Watch: %v", err)
		}
	}
}

// wakes expects a value soon.
func (k *kit) wakes(changed <-chan struct{}) {
	k.Helper()
	select {
	case <-changed:
	case <-time.After(wakeTime):
		k.Error("Watch: no value came")
	}
}

// drain takes the values that wait.
func drain(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		default:
			return
		}
	}
}

var watcherRules = []rule{
	{"watch-complete", "completion wakes every waiter", func(k *kit) {
		l := k.take("k")
		first, second := k.watch("k"), k.watch("k")
		k.complete(l, "answer", keepLonger)
		k.wakes(first)
		k.wakes(second)
	}},
	{"watch-release", "a release wakes every waiter, with steps and without", func(k *kit) {
		changed := k.watch("k")
		l := k.take("k")
		drain(changed)
		k.release(l)
		k.wakes(changed)
		l = k.take("k")
		k.checkpoint(l, "a", "1")
		drain(changed)
		k.release(l)
		k.wakes(changed)
	}},
	{
		"watch-give-up",
		"an attempt that gives up its claim by extending it by nothing wakes every waiter", func(k *kit) {
			l := k.take("k")
			changed := k.watch("k")
			k.extend(l, 0)
			k.wakes(changed)
		},
	},
	{"watch-again", "values that are not read delay no caller, and one is there for a later reader", func(k *kit) {
		changed := k.watch("k")
		for range 100 {
			k.release(k.take("k"))
		}
		k.wakes(changed)
	}},
	{"watch-stop", "stop ends one watch, and no other", func(k *kit) {
		l := k.take("k")
		before := k.watch("k")
		_, stop, err := k.store.(retrysafe.Watcher).Watch(k.ctx, l.Key)
		k.must("Watch", err)
		after := k.watch("k")
		stop()
		k.complete(l, "answer", keepLonger)
		k.wakes(before)
		k.wakes(after)
	}},
	{"watch-own-key", "a watch wakes for its own key, whatever other keys do", func(k *kit) {
		a, b := k.take("a"), k.take("b")
		changed := k.watch("b")
		k.complete(a, "of a", keepLonger)
		k.complete(b, "of b", keepLonger)
		k.wakes(changed)
	}},
	{"watch-context", "a watch whose context has ended fails with the context's error", func(k *kit) {
		ended, cancel := context.WithCancel(k.ctx)
		cancel()
		_, _, err := k.store.(retrysafe.Watcher).Watch(ended, params("k").Key)
		k.refused("Watch", err)
	}},
}
