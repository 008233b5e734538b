package shardstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// losing loses the answer to the first claim.
type losing struct {
	*memstore.Store
	lost bool
}

func (l *losing) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := l.Store.Claim(ctx, p)
	if !l.lost {
		l.lost = true
		return retrysafe.Claim{}, errors.Join(errLost, err)
	}
	return c, err
}

// failing is a store of which calls can fail.
type failing struct {
	*memstore.Store
	extends, completes bool // fail
}

func (f *failing) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if f.extends {
		return errLost
	}
	return f.Store.Extend(ctx, l, d)
}

func (f *failing) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	if f.completes {
		return errLost
	}
	return f.Store.Complete(ctx, l, r, keep)
}

// move returns a Store of a move from old to next.
func move(t *testing.T, old, next retrysafe.Store, stage Stage) *Store {
	t.Helper()
	s, err := New([]Shard{{"old", old}}, Options{Move: &Move{To: []Shard{{"new", next}}, Stage: stage}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An attempt whose heartbeats the old store misses ends when its holder's lease does, and stays abandoned for as long
// as its key is taken: a process at stage 1 does not begin it anew. Seen to fail with Extend extending the new store
// first.
func TestOldStoreMissesHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := &failing{Store: memstore.New(memstore.Options{})}, memstore.New(memstore.Options{})
		const lease, key = 10 * time.Second, 5 * time.Second
		p := retrysafe.ClaimParams{
			Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: lease, Keep: retrysafe.Retention{Key: key},
		}
		at := move(t, old, next, NewDecides)
		c, err := at.Claim(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		old.extends = true
		until := time.Now().Add(lease)
		for range 20 { // as a Guard does, until the lease ends by its own clock
			time.Sleep(lease / 5)
			if time.Now().After(until) {
				break
			}
			if err := at.Extend(t.Context(), c.Lease, lease); err == nil {
				until = time.Now().Add(lease)
			}
		}
		time.Sleep(time.Until(until) + time.Second)
		p.Owner = retrysafe.NewOwner()
		again, err := move(t, old, next, OldDecides).Claim(t.Context(), p)
		if err != nil || again.Verdict != retrysafe.Abandoned {
			t.Errorf("a second after the lease: got %v, %v; want abandoned", again.Verdict, err)
		}
	})
}

// A key that has ended in the store that decides alone is purged in both, with its steps. Seen to fail with Purge
// passing over an unfinished record, as it did.
func TestPurgeOfAnAnswerInOneStore(t *testing.T) {
	for _, stage := range []Stage{OldDecides, NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			first := memstore.New(memstore.Options{})
			second := &failing{Store: memstore.New(memstore.Options{})}
			s := move(t, first, second, stage)
			if stage == NewDecides {
				s = move(t, second, first, stage)
			}
			p := retrysafe.ClaimParams{
				Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
				Keep: retrysafe.Retention{Key: time.Hour},
			}
			c, err := s.Claim(t.Context(), p)
			step, entry := retrysafe.StepResult{Name: "a", Data: []byte("secret")}, retrysafe.AuditStepPrefix+"purged"
			second.completes = true
			err = errors.Join(err, s.Checkpoint(t.Context(), c.Lease, step),
				s.Complete(t.Context(), c.Lease, retrysafe.Result{Body: []byte("secret")}, p.Keep))
			second.completes = false
			if err != nil {
				t.Fatal(err)
			}
			d, audit := p.Key.Digest(), retrysafe.StepResult{Name: entry}
			if err := s.Purge(t.Context(), d, c.Lease.Fence, audit); !errors.Is(err, retrysafe.ErrNotEnded) {
				t.Errorf("while the lease runs: got %v, want ErrNotEnded", err)
			}
			time.Sleep(2 * time.Minute)
			if err := s.Purge(t.Context(), d, c.Lease.Fence, audit); err != nil {
				t.Error(err)
			}
			for _, store := range []*memstore.Store{first, second.Store} {
				found, err := store.Inspect(t.Context(), d)
				if err != nil || len(found) != 1 || !found[0].State.Ended() || len(found[0].Steps) != 1 ||
					found[0].Steps[0].Name != entry || found[0].Result.Body != nil {
					t.Errorf("%v: got %+v, %v; want the purged record with its entry alone", stage, found, err)
				}
			}
		})
	}
}

// A purge that arrives after the key was reopened and has ended again, during a move as well, drops nothing of the
// later attempt; and one that was carried out is not carried out again. The fence may be that of either store.
//
// Seen to fail with Purge finding its record by "ended(c)" alone: the later answer was dropped.
func TestLatePurge(t *testing.T) {
	for _, stage := range []Stage{OldDecides, NewDecides} {
		first, second := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
		s := move(t, first, second, stage)
		p := retrysafe.ClaimParams{
			Key: retrysafe.Key{ID: "k"}, Lease: time.Minute, Keep: retrysafe.Retention{Replay: time.Hour, Key: time.Hour},
		}
		d := p.Key.Digest()
		run := func() {
			p.Owner = retrysafe.NewOwner()
			c, err := s.Claim(t.Context(), p)
			if err == nil {
				err = s.Complete(t.Context(), c.Lease, retrysafe.Result{Body: []byte("answer")}, p.Keep)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		entry := func(name string) retrysafe.StepResult {
			return retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + name}
		}
		run()
		var fences []int64
		for _, store := range []*memstore.Store{first, second} {
			found, err := store.Inspect(t.Context(), d)
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			fences = append(fences, found[0].Fence)
		}
		for _, fence := range fences {
			if err := s.Purge(t.Context(), d, fence, entry("in time")); err != nil {
				t.Errorf("%v: %v", stage, err)
			}
		}
		shown, err := s.Inspect(t.Context(), d)
		if err == nil {
			err = s.Reopen(t.Context(), d, shown[0].Fence, entry("reopened"))
		}
		if err != nil {
			t.Fatal(err)
		}
		run()
		for _, fence := range fences {
			err := s.Purge(t.Context(), d, fence, entry("late"))
			again := s.Purge(t.Context(), d, fence, entry("in time"))
			if !errors.Is(err, retrysafe.ErrNotEnded) || again != nil {
				t.Errorf("%v: got %v and %v, want ErrNotEnded and nothing", stage, err, again)
			}
		}
		for _, store := range []*memstore.Store{first, second} {
			found, err := store.Inspect(t.Context(), d)
			if err != nil || len(found) != 1 || string(found[0].Result.Body) != "answer" {
				t.Errorf("%v: got %+v, %v; want the later answer", stage, found, err)
			}
		}
	}
}

// A listing shows a key that has ended in one store of a move as Inspect does, and not as what the store that decides
// has of it: an InTx of the stage before completes the key in one store alone, and so does a process that dies between
// both.
//
// Seen to fail with the second case left out of shown, and with endedHere false.
func TestListOfAnAnswerInOneStore(t *testing.T) {
	for _, stage := range []Stage{OldDecides, NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			old, next := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
			s, before := move(t, old, next, stage), move(t, old, next, OldDecides+NewDecides-stage)
			p := retrysafe.ClaimParams{
				Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
				Keep: retrysafe.Retention{Replay: time.Hour, Key: time.Hour},
			}
			c, err := before.Claim(t.Context(), p)
			if err == nil { // as InTx
				err = before.StoreOf(p.Key).Complete(t.Context(), c.Lease, retrysafe.Result{Code: 201}, p.Keep)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			for state, want := range map[retrysafe.State]int{
				0: 1, retrysafe.Pending: 0, retrysafe.Succeeded: map[Stage]int{OldDecides: 0, NewDecides: 1}[stage],
			} {
				found, err := s.List(t.Context(), retrysafe.ListParams{State: state})
				if err != nil || len(found) != want || want == 1 && found[0].Result.Code != 201 {
					t.Errorf("%v, state %v: got %+v, %v; want %d", stage, state, found, err, want)
				}
			}
		})
	}
}

// doubting is a store that has sent each claim twice.
type doubting struct{ *memstore.Store }

func (d doubting) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := d.Store.Claim(ctx, p)
	c.Doubted = true
	return c, err
}

// A claim that one store of a move has sent twice is doubted, whatever the other one answers: the key was given back, and
// the first copy may take it for nobody. Seen to fail with claimFirst returning what claimSecond does.
func TestDoubtOfOneStore(t *testing.T) {
	for name, other := range map[string]*memstore.Store{
		"the key is taken": memstore.New(memstore.Options{}), "it is full": memstore.New(memstore.Options{MaxKeys: 1}),
	} {
		for _, stage := range []Stage{OldDecides, NewDecides} {
			old, next := retrysafe.Store(doubting{memstore.New(memstore.Options{})}), retrysafe.Store(other)
			if stage == NewDecides {
				old, next = next, old
			}
			p := retrysafe.ClaimParams{Key: retrysafe.Key{ID: name}, Owner: retrysafe.NewOwner(), Lease: time.Hour}
			taken := p
			if taken.Owner = retrysafe.NewOwner(); name == "it is full" {
				taken.Key.ID = "another"
			}
			if _, err := other.Claim(t.Context(), taken); err != nil {
				t.Fatal(err)
			}
			c, err := move(t, old, next, stage).Claim(t.Context(), p)
			if c.Verdict == retrysafe.Acquired || !c.Doubted {
				t.Errorf("%s, %v: got %v, %v, doubted %t; want it doubted", name, stage, c.Verdict, err, c.Doubted)
			}
		}
	}
}

// listed counts how often a store is asked for a page.
type listed struct {
	*memstore.Store
	pages int
}

func (l *listed) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	l.pages++
	return l.Store.List(ctx, p)
}

// A listing during a move reads the store that shows none of its records as far as the other one, and not to its end.
// Seen to fail with fill reading until there is a record to show: it read 31 pages of the other store.
func TestListReadsNoMoreThanItShows(t *testing.T) {
	for _, stage := range []Stage{OldDecides, NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			old, next := &listed{Store: memstore.New(memstore.Options{})}, &listed{Store: memstore.New(memstore.Options{})}
			s := move(t, old, next, stage)
			for i := range 300 {
				p := retrysafe.ClaimParams{
					Key: retrysafe.Key{ID: fmt.Sprint(i)}, Owner: retrysafe.NewOwner(), Lease: time.Hour,
				}
				if _, err := s.Claim(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			found, err := s.List(t.Context(), retrysafe.ListParams{State: retrysafe.Pending, Limit: 10})
			if err != nil || len(found) != 10 || found[9].Key.ID != "290" {
				t.Errorf("%v: got %d records, %v; want the last ten", stage, len(found), err)
			}
			if old.pages+next.pages > 4 {
				t.Errorf("%v: read %d pages of the old store and %d of the new one", stage, old.pages, next.pages)
			}
		})
	}
}

// A claim whose first answer came late, or was lost, gets the key when it is repeated, unless the clocks really differ.
// Seen to fail with claimBoth returning the first errApart.
func TestLateAnswerIsNotBlamedOnClocks(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration // the new store's clock
		want  error
	}{"the clocks agree": {0, nil}, "the clocks differ": {5 * time.Second, errApart}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, ahead := time.Now(), time.Duration(0)
				clock := func() time.Duration { return time.Since(start) + ahead }
				old, next := &losing{Store: memstore.New(memstore.Options{})}, memstore.New(memstore.Options{Clock: clock})
				ahead = c.ahead
				s := move(t, old, next, OldDecides)
				p := retrysafe.ClaimParams{
					Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
					Keep: retrysafe.Retention{Key: time.Hour},
				}
				if _, err := s.Claim(t.Context(), p); !errors.Is(err, errLost) {
					t.Fatalf("got %v, want that the answer was lost", err)
				}
				time.Sleep(3 * time.Second)
				got, err := s.Claim(t.Context(), p)
				if !errors.Is(err, c.want) || err == nil && got.Verdict != retrysafe.Acquired {
					t.Errorf("got %v, %v; want %v", got.Verdict, err, c.want)
				}
			})
		})
	}
}
