package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// awkward are IDs that some store somewhere would take for one another.
var awkward = []string{
	"k", "K", " k", "k ", "k\x00", "k\x00x", "\x00k", "\x00", "k\n",
	"k%", "k_", "k*", "k'", `k"`, `k\`, "k/", "k:", "{k}",
	"\xff", "\xfe", "\xffk", "é", "e\u0301", "ﬀ", "ff", "ß", "SS", "ss", "ı", "i", "I", "İ",
	"0", "00", "1e0", "null", "NULL",
	strings.Repeat("x", 254), strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 255) + "y",
	strings.Repeat("x", retrysafe.MaxKeyBytes), strings.Repeat("x", retrysafe.MaxKeyBytes-1) + "y",
}

var byteRules = []rule{
	{"ids-are-bytes", "IDs are bytes: no two different ones are the same key", func(k *kit) {
		for _, id := range awkward {
			k.complete(k.take(id), "of "+id, keepLonger)
		}
		for _, id := range awkward {
			equal(k, "key", k.replays(id, "of "+id).Key.ID, id)
		}
	}},
	{"scopes-are-bytes", "scopes are bytes: no two different ones hold the same key", func(k *kit) {
		for _, scope := range append([]string{""}, awkward...) {
			equal(k, "scope", k.acquire("k", inScope(scope)).Record.Key.Scope, scope)
		}
	}},
	{"scope-ends-where-it-ends", "bytes that move from the scope to the ID make another key", func(k *kit) {
		for _, key := range []retrysafe.Key{
			{Scope: "a", ID: "bc"},
			{Scope: "ab", ID: "c"},
			{Scope: "", ID: "abc"},
			{Scope: "a/b", ID: "c"},
			{Scope: "a", ID: "b/c"},
			{Scope: "a\x00", ID: "b"},
			{Scope: "a", ID: "\x00b"},
			{Scope: "a:b", ID: "c"},
			{Scope: "a", ID: "b:c"},
			{Scope: "bc", ID: "a"},
		} {
			k.take(key.ID, inScope(key.Scope))
		}
	}},
	{"bodies-are-bytes", "Meta and Body come back byte for byte, whatever they hold", func(k *kit) {
		for _, body := range []string{
			"\x00", "\xff\xfe", "{\"b\":1, \"a\":1.0}", " \n", "'; drop table records; --", "\\x00", "null",
		} {
			l := k.take(body)
			want := retrysafe.Result{Meta: []byte(body + "\x00"), Body: []byte(body)}
			k.must("Complete", k.store.Complete(k.ctx, l, want, keepLonger))
			got := k.find(retrysafe.Done, body).Result
			equal(k, "body", string(got.Body), body)
			equal(k, "meta", string(got.Meta), body+"\x00")
		}
	}},
	{"bodies-empty", "empty and absent bytes are the same, and neither stands in for the other field", func(k *kit) {
		for id, want := range map[string]retrysafe.Result{
			"body alone":  {Body: []byte("b")},
			"meta alone":  {Meta: []byte("m")},
			"both empty":  {Meta: []byte{}, Body: []byte{}},
			"both absent": {},
		} {
			k.must("Complete", k.store.Complete(k.ctx, k.take(id), want, keepLonger))
			got := k.find(retrysafe.Done, id).Result
			equal(k, id+": same result", sameResult(got, want), true)
		}
	}},
	{"bodies-big", "a result of more than a megabyte comes back whole", func(k *kit) {
		body := make([]byte, 1<<20+257)
		for i := range body {
			body[i] = byte(i + i>>8)
		}
		want := retrysafe.Result{Meta: bytes.Repeat([]byte("m"), 70_000), Body: body}
		k.must("Complete", k.store.Complete(k.ctx, k.take("k"), want, keepLonger))
		equal(k, "same result", sameResult(k.find(retrysafe.Done, "k").Result, want), true)
	}},
	{"steps-big", "a step of a megabyte comes back whole", func(k *kit) {
		l := k.take("k")
		data := strings.Repeat("step\x00", 200_000)
		k.checkpoint(l, "a", data)
		equal(k, "same step", string(k.acquire("k", by(l.Owner)).Record.Steps[0].Data) == data, true)
	}},
	{
		"copies-results-in",
		"a caller that changes its result after Complete changes nothing in the store", func(k *kit) {
			r := result("answer")
			k.must("Complete", k.store.Complete(k.ctx, k.take("k"), r, keepLonger))
			r.Body[0], r.Meta[0] = 'X', 'X'
			equal(k, "same result", sameResult(k.replays("k", "answer").Result, result("answer")), true)
		},
	},
	{"copies-results-out", "a caller that changes the result it got changes nothing in the store", func(k *kit) {
		k.finish("k", "answer", keepLonger)
		r := k.replays("k", "answer").Result
		r.Body[0], r.Meta[0] = 'X', 'X'
		equal(k, "same result", sameResult(k.replays("k", "answer").Result, result("answer")), true)
	}},
	{"copies-steps", "a caller that changes a step, saved or handed out, changes nothing in the store", func(k *kit) {
		l := k.take("k")
		mine := step("a", "1")
		k.must("Checkpoint", k.store.Checkpoint(k.ctx, l, mine))
		mine.Data[0] = 'X'
		k.checkpoint(l, "b", "2")
		steps := k.acquire("k", by(l.Owner)).Record.Steps
		k.steps(steps, "a=1", "b=2")
		steps[0].Data[0], steps[1] = 'X', step("X", "X")
		k.steps(k.acquire("k", by(l.Owner)).Record.Steps, "a=1", "b=2")
	}},
}

var tooLargeRules = []rule{
	{
		"too-large",
		"what the store will never take is refused with ErrResultTooLarge and changes nothing; without its content " +
			"the result is taken", func(k *kit) {
			l, large := k.take("k"), make([]byte, k.h.TooLarge)
			for name, err := range map[string]error{
				"Checkpoint": k.store.Checkpoint(k.ctx, l, retrysafe.StepResult{Name: "a", Data: large}),
				"Complete":   k.store.Complete(k.ctx, l, retrysafe.Result{Body: large}, keepLonger),
			} {
				if !errors.Is(err, retrysafe.ErrResultTooLarge) {
					k.Errorf("%s: got %v, want ErrResultTooLarge", name, err)
				}
			}
			k.steps(k.acquire("k", by(l.Owner)).Record.Steps)
			k.must("Complete", k.store.Complete(k.ctx, l, retrysafe.Result{Omitted: true}, keepLonger))
			equal(k, "omitted", k.find(retrysafe.Done, "k").Result.Omitted, true)
		},
	},
}

// refused expects the error of a context that has ended.
func (k *kit) refused(method string, err error) {
	k.Helper()
	if !errors.Is(err, context.Canceled) {
		k.Errorf("%s: got %v, want context.Canceled", method, err)
	}
}

var contextRules = []rule{
	{
		"context-ended",
		"a call whose context has ended fails with the context's error and changes nothing", func(k *kit) {
			ended, cancel := context.WithCancel(k.ctx)
			cancel()
			_, err := k.store.Claim(ended, params("k"))
			k.refused("Claim", err)
			l := k.take("k")
			k.refused("Extend", k.store.Extend(ended, l, time.Hour))
			k.refused("Checkpoint", k.store.Checkpoint(ended, l, step("a", "1")))
			k.refused("Complete", k.store.Complete(ended, l, result("x"), keepLonger))
			k.refused("Release", k.store.Release(ended, l))
			k.record(k.find(retrysafe.InFlight, "k"), retrysafe.Record{
				Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: l.Fence, Attempt: 1, LeaseLeft: leaseTime,
			})
		},
	},
	{
		"context-ends-in-claim",
		"a claim whose context ends in the middle has happened or not, and can be repeated", func(k *kit) {
			eachCut(k, "claim", func(id string, cut context.Context) {
				p := params(id)
				first, err := k.store.Claim(cut, p)
				again := k.claim(p)
				equal(k, "verdict", again.Verdict, retrysafe.Acquired)
				equal(k, "attempt", again.Record.Attempt, 1)
				if err == nil {
					equal(k, "lease", again.Lease, first.Lease)
				}
			})
		},
	},
	{
		"context-ends-in-checkpoint",
		"a checkpoint whose context ends in the middle is saved as a whole or not at all", func(k *kit) {
			eachCut(k, "checkpoint", func(id string, cut context.Context) {
				l := k.take(id)
				err := k.store.Checkpoint(cut, l, step("a", "1"))
				steps := k.acquire(id, by(l.Owner)).Record.Steps
				if err == nil || len(steps) > 0 {
					k.steps(steps, "a=1")
				}
				k.checkpoint(l, "a", "1")
				k.steps(k.acquire(id, by(l.Owner)).Record.Steps, "a=1")
			})
		},
	},
	{
		"context-ends-in-complete",
		"a completion whose context ends in the middle is saved as a whole or not at all", func(k *kit) {
			eachCut(k, "complete", func(id string, cut context.Context) {
				l := k.take(id)
				err := k.store.Complete(cut, l, result("answer"), keepLonger)
				c := k.claim(params(id))
				if err == nil || c.Verdict == retrysafe.Done {
					equal(k, "same result", sameResult(c.Record.Result, result("answer")), true)
				} else {
					equal(k, "verdict", c.Verdict, retrysafe.InFlight)
				}
				k.complete(l, "answer", keepLonger)
				k.replays(id, "answer")
			})
		},
	},
	{
		"context-ends-in-release",
		"a release whose context ends in the middle has happened or not, and can be repeated", func(k *kit) {
			eachCut(k, "release", func(id string, cut context.Context) {
				l := k.take(id)
				err := k.store.Release(cut, l)
				if err != nil {
					k.release(l)
				}
				equal(k, "attempt", k.acquire(id, anotherRequest).Record.Attempt, 1)
			})
		},
	},
}

// eachCut calls try with contexts that end sooner and later after the call, each time with another ID. What a context
// cut off may still be done when the next rule has begun, on a server that both share: so no other rule has these
// IDs.
func eachCut(k *kit, method string, try func(id string, cut context.Context)) {
	k.Helper()
	for i := range 30 {
		cut, cancel := context.WithTimeout(k.ctx, time.Duration(i*i)*5*time.Microsecond)
		try(fmt.Sprintf("%s cut off %d", method, i), cut)
		cancel()
	}
}
