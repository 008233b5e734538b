package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

var errDown = errors.New("connection refused")

// plain is a store that can do nothing but what a Store must, and that may be down.
type plain struct {
	retrysafe.Store
	down *atomic.Bool
}

func (p plain) Claim(ctx context.Context, c retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if p.down.Load() {
		return retrysafe.Claim{}, errDown
	}
	return p.Store.Claim(ctx, c)
}

func claimOf(id string) retrysafe.ClaimParams {
	return retrysafe.ClaimParams{
		Key: retrysafe.Key{ID: id}, Fingerprint: "raw1:one", Owner: retrysafe.NewOwner(), Lease: time.Minute,
	}
}

// Seen to fail with each of these five checks taken out of add and known.
func TestNewRefuses(t *testing.T) {
	a, b := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	for want, shards := range map[string][]shardstore.Shard{
		"no shards":      nil,
		"has no name":    {{Store: a}},
		"has no store":   {{Name: "a", Store: a}, {Name: "b"}},
		"the name \"a\"": {{Name: "a", Store: a}, {Name: "a", Store: b}},
		"the same store": {{Name: "a", Store: a}, {Name: "b", Store: a}},
	} {
		if _, err := shardstore.New(shards, shardstore.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// A shard that is down takes its own keys down and no others, and the error names it. Seen to fail with the name left
// out of explain, and with claims that ask the next shard after an error.
func TestOneShardDown(t *testing.T) {
	down := new(atomic.Bool)
	down.Store(true)
	shards := memories(3, new(atomic.Int64))
	shards[1].Store = plain{shards[1].Store, down}
	s := open(t, shards, shardstore.Options{})
	failed := 0
	for i := range 100 {
		p := claimOf(fmt.Sprint(i))
		c, err := s.Claim(t.Context(), p)
		if s.StoreOf(p.Key) != shards[1].Store {
			if err != nil || c.Verdict != retrysafe.Acquired {
				t.Errorf("key %d: got %v, %v; its shard is up", i, c.Verdict, err)
			}
			continue
		}
		failed++
		if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "shard b: ") {
			t.Errorf("key %d: got %v, want that shard b is down", i, err)
		}
	}
	if failed < 20 || failed > 50 {
		t.Errorf("%d of 100 keys are down, want a third", failed)
	}
}

// What a shard cannot do is refused by its name. Seen to fail with unsupported replaced by nil in each of these
// methods.
func TestUnsupported(t *testing.T) {
	shards := memories(1, new(atomic.Int64))
	shards[0].Store = plain{shards[0].Store, new(atomic.Bool)}
	s := open(t, shards, shardstore.Options{})
	k := retrysafe.Key{ID: "k"}
	_, inspect := s.Inspect(t.Context(), k.Digest())
	_, list := s.List(t.Context(), retrysafe.ListParams{})
	_, find := s.Find(t.Context(), retrysafe.FindParams{})
	_, stats := s.Stats(t.Context())
	_, _, watch := s.Watch(t.Context(), k)
	purge := s.Purge(t.Context(), k.Digest(), 1, retrysafe.StepResult{})
	for method, err := range map[string]error{
		"Inspect": inspect, "List": list, "Find": find, "Stats": stats, "Watch": watch, "Purge": purge,
		"EndLease":     s.EndLease(t.Context(), k.Digest(), 1),
		"AddSightings": s.AddSightings(t.Context(), make([]retrysafe.KeySighting, 1)),
	} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "shard a") {
			t.Errorf("%s: got %v, want errors.ErrUnsupported of shard a", method, err)
		}
	}
	if n, err := s.Sweep(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("Sweep: got %d, %v; want nothing", n, err)
	}
}

// Records of keys that a shard no longer has are not listed, and do not shorten a page. Seen to fail with shown taken
// out of fill, and with fill reading one page alone.
func TestListLeavesOutOtherShardsKeys(t *testing.T) {
	shards := memories(2, new(atomic.Int64))
	one := open(t, shards[:1], shardstore.Options{})
	for i := range 60 {
		if _, err := one.Claim(t.Context(), claimOf(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	both := open(t, shards, shardstore.Options{})
	var got, want []string
	for i := range 60 {
		if id := fmt.Sprint(i); both.StoreOf(retrysafe.Key{ID: id}) == shards[0].Store {
			want = append([]string{id}, want...)
		}
	}
	var p retrysafe.ListParams
	p.Limit = 2
	for {
		page, err := both.List(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.Key.ID)
			p.Before = r.FirstFence
		}
	}
	if len(want) == 60 || !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each call of Sweep begins with another shard. Seen to fail with a sweep that always begins with the first.
func TestSweepBeginsWithEachShard(t *testing.T) {
	passed := new(atomic.Int64)
	shards := memories(2, passed)
	s := open(t, shards, shardstore.Options{})
	for i := range 40 {
		c, err := s.Claim(t.Context(), claimOf(fmt.Sprint(i)))
		if err == nil {
			err = s.Complete(t.Context(), c.Lease, retrysafe.Result{}, retrysafe.Retention{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	passed.Add(int64(48 * time.Hour))
	before := held(t, shards)
	for range 2 {
		if n, err := s.Sweep(t.Context(), 5); n != 5 || err != nil {
			t.Fatalf("Sweep: got %d, %v; want 5", n, err)
		}
	}
	for i, left := range held(t, shards) {
		if left != before[i]-5 {
			t.Errorf("shard %s has %d of %d records left, want 5 less", shards[i].Name, left, before[i])
		}
	}
}

// held returns how many records each shard has.
func held(t *testing.T, shards []shardstore.Shard) (counts []int64) {
	t.Helper()
	for _, one := range shards {
		stats, err := one.Store.(retrysafe.Inspector).Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, stats.Succeeded)
	}
	return counts
}

type risky struct{ retrysafe.Store }

func (risky) Risks(context.Context) ([]retrysafe.Risk, error) {
	return []retrysafe.Risk{{Setting: "fsync off", Loses: "All.", Remedy: "Set it."}}, nil
}

// Seen to fail with the name left out of Risks.
func TestRisksNameTheShard(t *testing.T) {
	shards := memories(2, new(atomic.Int64))
	shards[0].Store = plain{shards[0].Store, new(atomic.Bool)}
	shards[1].Store = risky{shards[1].Store}
	risks, err := open(t, shards, shardstore.Options{}).Risks(t.Context())
	if err != nil || len(risks) != 1 || risks[0].String() != "shard b: fsync off: All. Set it." {
		t.Errorf("got %v, %v", risks, err)
	}
}

// A transaction of the shard that has the key completes the attempt; one of another shard does not, and says what to
// do. Seen to fail with the first shard for every key in StoreOf, and with StoreOf taken out of the root's isStore.
func TestInTx(t *testing.T) {
	a, b := retrysafetest.NewStore(), retrysafetest.NewStore()
	s := open(t, []shardstore.Shard{{Name: "a", Store: a}, {Name: "b", Store: b}}, shardstore.Options{})
	g := retrysafe.New(s, retrysafe.Options{})
	applied := 0
	for i := range 10 {
		key := retrysafe.Key{ID: fmt.Sprint(i)}
		_, err := retrysafe.Do(t.Context(), g, retrysafe.Request{Key: key},
			func(ctx context.Context, at *retrysafe.Attempt) (string, error) {
				right := s.StoreOf(at.Key()).(*retrysafetest.Store)
				wrong := a
				if right == a {
					wrong = b
				}
				pay := func(of *retrysafetest.Store) error {
					return of.InTx(ctx, func(ctx context.Context) error {
						of.Apply(ctx, func() { applied++ })
						return retrysafe.SetResult(ctx, "paid")
					})
				}
				err := pay(wrong)
				if !errors.Is(err, retrysafe.ErrLeaseLost) || !strings.Contains(err.Error(), "StoreOf") {
					t.Errorf("key %d: got %v of the wrong shard", i, err)
				}
				return "paid", pay(right)
			})
		if c, claimErr := s.Claim(t.Context(), claimOf(fmt.Sprint(i))); err != nil || claimErr != nil ||
			c.Verdict != retrysafe.Done || applied != i+1 {
			t.Errorf("key %d: got %v, %v, %v, applied %d", i, err, c.Verdict, claimErr, applied)
		}
	}
}

// unread is a store that lacks the key of a record in its listings, because it cannot read that.
type unread struct{ *memstore.Store }

func (s unread) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	return s.leaveOut(s.Store.List(ctx, p))
}

func (s unread) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	return s.leaveOut(s.Store.Find(ctx, p))
}

func (s unread) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	found, unreadable := s.List(ctx, retrysafe.ListParams{})
	for _, r := range found {
		if err := visit(r); err != nil {
			return err
		}
	}
	return unreadable
}

func (s unread) Stats(ctx context.Context) (stats retrysafe.Stats, err error) {
	err = s.Walk(ctx, func(retrysafe.Record) error {
		stats.Pending++
		return nil
	})
	return stats, err
}

func (unread) leaveOut(all []retrysafe.Record, err error) ([]retrysafe.Record, error) {
	readable := slices.DeleteFunc(all, func(r retrysafe.Record) bool { return r.Key.ID == "later" })
	if len(readable) < len(all) {
		err = fmt.Errorf("one of version 2: %w", retrysafe.ErrUnreadable)
	}
	return readable, err
}

// A record that a shard cannot read hides none of the others, in its own shard and in another one. Seen to fail with
// fill, with Walk and with Stats returning the shard's error.
func TestListLeavesOutWhatCannotBeRead(t *testing.T) {
	shards := memories(2, new(atomic.Int64))
	for i := range shards {
		shards[i].Store = unread{shards[i].Store.(*memstore.Store)}
	}
	s := open(t, shards, shardstore.Options{})
	ids := []string{"known", "later"}
	for i := 0; s.StoreOf(retrysafe.Key{ID: ids[0]}) == s.StoreOf(retrysafe.Key{ID: "later"}); i++ {
		ids[0] = fmt.Sprint("known ", i)
	}
	for _, id := range ids {
		if _, err := s.Claim(t.Context(), claimOf(id)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.LeavesOut(t, s, ids[0], "version 2")
}
