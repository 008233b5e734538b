package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// broken is a store that breaks the contract in one place.
type broken struct {
	retrysafe.Store
	claim    func(s retrysafe.Store, ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error)
	complete func(s retrysafe.Store, ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error
	extend   func(s retrysafe.Store, ctx context.Context, l retrysafe.Lease, d time.Duration) error
}

func (b broken) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if b.claim == nil {
		return b.Store.Claim(ctx, p)
	}
	return b.claim(b.Store, ctx, p)
}

func (b broken) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if b.complete == nil {
		return b.Store.Complete(ctx, l, r, keep)
	}
	return b.complete(b.Store, ctx, l, r, keep)
}

func (b broken) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if b.extend == nil {
		return b.Store.Extend(ctx, l, d)
	}
	return b.extend(b.Store, ctx, l, d)
}

// Each rule must see a store that breaks it, and a sound one keeps them all.
func TestRulesSeeBrokenStores(t *testing.T) {
	changed := func(change func(p *retrysafe.ClaimParams)) broken {
		return broken{claim: func(s retrysafe.Store, ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
			change(&p)
			return s.Claim(ctx, p)
		}}
	}
	answered := func(change func(c *retrysafe.Claim)) broken {
		return broken{claim: func(s retrysafe.Store, ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
			c, err := s.Claim(ctx, p)
			change(&c)
			return c, err
		}}
	}
	var calls atomic.Int64
	for sentence, b := range map[string]broken{
		"a new key is acquired by one attempt, which may repeat its claim": changed(func(p *retrysafe.ClaimParams) {
			p.Owner = retrysafe.NewOwner()
		}),
		"another attempt is told that the key is in flight": changed(func(p *retrysafe.ClaimParams) {
			p.Key.ID = retrysafe.NewOwner().String()
		}),
		"the answer comes back byte for byte, and a second completion does not change it": {
			complete: func(s retrysafe.Store, ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
				r.Body = bytes.ToValidUTF8(r.Body, nil)
				return s.Complete(ctx, l, r, keep)
			},
		},
		"a released key is free, and its fence grows": answered(func(c *retrysafe.Claim) { c.Lease.Fence = min(c.Lease.Fence, 7) }),
		"the steps of an attempt are handed to the next one": answered(func(c *retrysafe.Claim) {
			c.Record.Steps = nil
		}),
		"after a take-over the old lease can change nothing": {
			extend: func(s retrysafe.Store, ctx context.Context, l retrysafe.Lease, d time.Duration) error {
				if err := s.Extend(ctx, l, d); d == 0 {
					return err
				}
				return nil
			},
		},
		"a lease runs out by the store's clock, and not before": changed(func(p *retrysafe.ClaimParams) { p.Lease /= 2 }),
		"a key is free once its retention has passed": {
			complete: func(s retrysafe.Store, ctx context.Context, l retrysafe.Lease, r retrysafe.Result, _ retrysafe.Retention) error {
				return s.Complete(ctx, l, r, retrysafe.Retention{})
			},
		},
		"of 32 claims at once one is acquired, for 30 keys": answered(func(c *retrysafe.Claim) {
			if calls.Add(1)%50 == 0 {
				c.Verdict = retrysafe.Acquired
			}
		}),
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := named(t, sentence).holds(t.Context(), memstore.New(memstore.Options{})); err != nil {
					t.Errorf("a sound store: %v", err)
				}
				b.Store = memstore.New(memstore.Options{})
				if err := named(t, sentence).holds(t.Context(), b); err == nil {
					t.Error("a broken store is not seen")
				} else {
					t.Log(err)
				}
			})
		})
	}
}

func named(t *testing.T, sentence string) rule {
	t.Helper()
	for _, r := range rules {
		if r.sentence == sentence {
			return r
		}
	}
	t.Fatalf("no rule says %q", sentence)
	return rule{}
}

// Seen to fail with Failed not counted, and with the latency of a broken store measured.
func TestReportOfABrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := broken{
			Store: memstore.New(memstore.Options{}),
			claim: func(retrysafe.Store, context.Context, retrysafe.ClaimParams) (retrysafe.Claim, error) {
				return retrysafe.Claim{}, fmt.Errorf("no connection")
			},
		}
		r, err := examine(t.Context(), s, "broken", time.Second, io.Discard)
		if err != nil || r.Failed != len(rules) || len(r.Latency) != 0 {
			t.Errorf("got %+v, %v", r, err)
		}
		var out bytes.Buffer
		if err := r.print(&out); err != nil {
			t.Error(err)
		}
		clitest.WantText(t, "output", out.String(), "BROKEN  "+rules[0].sentence, "no connection")
	})
}

// Seen to fail with the risks not printed, with Strict not looked at, and with another exit code for a store that cannot be read.
func TestCommand(t *testing.T) {
	t.Parallel()
	got := clitest.Run(t, "check", "--store=memory:", "--for=100ms")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout, "store memory:", "ok      a new key", "RISK    memory", "callers", "\n  16 ")
	strict := clitest.Run(t, "check", "--store=memory:", "--for=100ms", "--strict")
	clitest.Want(t, "exit code with --strict", strict.Code, cli.ExitFailed)
	clitest.WantText(t, "output", strict.Stdout+strict.Stderr, "RISK    memory", "(--strict)")

	got = clitest.Run(t, "check", "--store="+filepath.Join(t.TempDir(), "keys.db"), "--for=100ms", "--json")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	var r report
	clitest.Must(t, json.Unmarshal([]byte(got.Stdout), &r))
	if len(r.Contract) != len(rules) || r.Failed != 0 || len(r.Latency) != 2 || r.Latency[1].Replay.N == 0 || r.Latency[0].PairsPerSecond <= 0 {
		t.Errorf("got %+v", r)
	}

	for args, code := range map[string]int{
		"--store=/no/such/directory/keys.db":                        cli.ExitRefused,
		"--store=postgres://nobody@127.0.0.1:1/x?connect_timeout=1": cli.ExitFailed,
		"--for=1ms": cli.ExitRefused,
	} {
		got := clitest.RunWith(t, []string{"RETRYSAFE_STORE=memory:"}, "check", args)
		if got.Code != code || got.Stderr == "" || got.Stdout != "" {
			t.Errorf("%s: got exit code %d, want %d: %s%s", args, got.Code, code, got.Stdout, got.Stderr)
		}
	}
}
