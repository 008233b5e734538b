package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// acquireIn claims a key in a scope.
func acquireIn(t testing.TB, s *Store, scope, id string) retrysafe.Lease {
	t.Helper()
	p := params(id)
	p.Key.Scope = scope
	c, err := s.Claim(context.Background(), p)
	if err != nil || c.Verdict != retrysafe.Acquired {
		t.Fatalf("claim = %v, %v", c.Verdict, err)
	}
	return c.Lease
}

// indexNow looks at all records that are there, whatever their age, in blocks of that size.
func indexNow(t testing.TB, s *Store, size int) {
	t.Helper()
	err := s.with(t.Context(), func(c *conn) error {
		p, err := s.progress(t.Context(), c)
		p.now += settled
		for more := true; more && err == nil; {
			more, err = s.addToBlock(t.Context(), c, &p, size)
		}
		for last, more := int64(0), true; more && err == nil; {
			last, more, err = s.indexEnded(t.Context(), c, last)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sweepAnew sweeps, without the pause after which records are looked at again.
func sweepAnew(t testing.TB, s *Store) {
	t.Helper()
	s.sweeper.indexed = time.Time{}
	sweepOnce(t, s, 1000)
}

// blocks is how many blocks there are, and the scopes that they name.
func blocks(t testing.TB, s *Store) string {
	t.Helper()
	var all []string
	selected, err := s.db.QueryContext(t.Context(), inDatabase("SELECT scopes FROM {{blocks}} ORDER BY first_fence", s.options.Database))
	err = readRows(selected, err, func(row *sql.Rows) error {
		var scopes string
		err := row.Scan(&scopes)
		names := strings.FieldsFunc(scopes, func(r rune) bool { return r == 0 })
		slices.Sort(names)
		all = append(all, strings.Join(slices.Compact(names), " "))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(len(all), ": ", strings.Join(all, "; "))
}

func wantBlocks(t testing.TB, s *Store, want string) {
	t.Helper()
	if got := blocks(t, s); got != want {
		t.Errorf("blocks: got %q, want %q", got, want)
	}
}

// wantFound expects records, of which p names one field.
func wantFound(t testing.TB, s *Store, what string, p retrysafe.FindParams, want string) {
	t.Helper()
	found, err := s.Find(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range found {
		ids = append(ids, r.Key.ID)
	}
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func inScope(scope string) retrysafe.FindParams {
	return retrysafe.FindParams{ListParams: retrysafe.ListParams{Scope: &scope}}
}

func inState(state retrysafe.State) retrysafe.FindParams {
	return retrysafe.FindParams{ListParams: retrysafe.ListParams{State: state}}
}

// A record is found by its scope before a sweep has put it into a block and after that, and also if it was claimed and
// completed since. The scopes of a block go when their records are gone, and blocks without records do. What was missed is
// added.
//
// Seen to fail with the blocks left out of search, and with each case of review left out.
func TestScopesAreFound(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	first := acquireIn(t, s, "a", "1")
	acquireIn(t, s, "b", "2")
	wantFound(t, s, "never swept", inScope("a"), "1")
	indexNow(t, s, 3)
	wantFound(t, s, "swept", inScope("a"), "1")
	between := acquireIn(t, s, "a", "3")
	for _, l := range []retrysafe.Lease{first, between} {
		if err := complete(s, l); err != nil {
			t.Fatal(err)
		}
	}
	wantFound(t, s, "claimed and completed since", inScope("a"), "3 1")
	wantFound(t, s, "none", inScope("c"), "")
	wantFound(t, s, "none", retrysafe.FindParams{ScopePrefix: "c"}, "")
	for i := range 6 {
		l := acquireIn(t, s, fmt.Sprint("c", i/4), fmt.Sprint(i+4))
		if i == 5 {
			keep := 90 * time.Hour
			if err := s.Complete(t.Context(), l, retrysafe.Result{}, retrysafe.Retention{Key: keep, Replay: keep, Audit: keep}); err != nil {
				t.Fatal(err)
			}
		}
	}
	indexNow(t, s, 3)
	wantBlocks(t, s, "3: a b; c0; c0 c1")
	wantFound(t, s, "in blocks", inScope("a"), "3 1")
	wantFound(t, s, "in blocks", retrysafe.FindParams{ScopePrefix: "c"}, "9 8 7 6 5 4")
	age(t, s, 48*time.Hour)
	sweepAnew(t, s)
	wantBlocks(t, s, "2: ; c1")
	wantFound(t, s, "swept", inScope("a"), "")
	wantFound(t, s, "swept", inScope("c1"), "9")
	execute(t, s, "UPDATE {{blocks}} SET scopes = x'00'")
	wantFound(t, s, "missed", inScope("c1"), "")
	sweepAnew(t, s)
	wantFound(t, s, "added", inScope("c1"), "9")
	age(t, s, 100*time.Hour)
	sweepAnew(t, s)
	wantBlocks(t, s, "1: ")
	acquireIn(t, s, "a", "again")
	indexNow(t, s, 3)
	wantFound(t, s, "claimed again", inScope("a"), "again")
}

// A record is found by its state whatever becomes of it, before the sweep that gives it a row, between two, and after.
// What a program of an earlier version has run again is found when its time is looked at again.
//
// Seen to fail with the new records left out of search, with the row of reopen left out, with indexEnded giving failures no
// row, and without indexAgain.
func TestStatesAreFound(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	leases := map[string]retrysafe.Lease{}
	for _, id := range []string{"stays", "ends", "fails", "again", "before"} {
		leases[id] = acquire(t, s, id)
	}
	long := retrysafe.Retention{Replay: 24 * time.Hour, Key: 24 * time.Hour, Audit: 24 * time.Hour}
	fail := func(id string) {
		t.Helper()
		if err := s.Complete(t.Context(), leases[id], retrysafe.Result{Failed: true, Code: 422}, long); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what, pending, released, failed string) {
		t.Helper()
		wantFound(t, s, what+", pending", inState(retrysafe.Pending), pending)
		wantFound(t, s, what+", released", inState(retrysafe.Released), released)
		wantFound(t, s, what+", failed", inState(retrysafe.Failed), failed)
	}
	fail("before")
	want("never swept", "again fails ends stays", "", "before")
	indexNow(t, s, 3)
	want("swept", "again fails ends stays", "", "before")
	fail("fails")
	fail("again")
	if err := s.Complete(t.Context(), leases["ends"], retrysafe.Result{}, long); err != nil {
		t.Fatal(err)
	}
	want("ended", "stays", "", "before again fails")
	indexNow(t, s, 3)
	want("ended, and indexed", "stays", "", "before again fails")
	step := retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "reopen"}
	for _, id := range []string{"again", "ends"} {
		if err := s.Reopen(t.Context(), leases[id].Key.Digest(), leases[id].Fence, step); err != nil {
			t.Fatal(err)
		}
	}
	want("run again", "stays", "again ends", "before fails")
	execute(t, s, "DELETE FROM {{tags}} WHERE tag = '=unfinished'")
	sweepAnew(t, s)
	want("looked at again", "stays", "again ends", "before fails")
	leases["again"] = acquire(t, s, "again")
	fail("again")
	want("with both rows", "stays", "ends", "before again fails")
	if got := value[string](t, s, "SELECT GROUP_CONCAT(DISTINCT tag ORDER BY tag) FROM {{tags}}"); got != "=failed,=unfinished" {
		t.Errorf("rows: %q", got)
	}
	age(t, s, 72*time.Hour)
	sweepAnew(t, s)
	if n := value[int](t, s, "SELECT COUNT(*) FROM {{tags}}"); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// A server that takes as long for one statement as a sweep has for all of them makes some progress in each sweep: its
// records get into blocks, and the rows of their states come and go.
//
// Seen to fail with the time looked at before the first addToBlock, and before the first indexEnded.
func TestASlowServerIndexesRecords(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	s.sweeper.indexTime = 0
	l := acquireIn(t, s, "a", "k")
	execute(t, s, fmt.Sprintf("UPDATE {{claims}} SET first_fence = first_fence - %d", 2*settled))
	sweepAnew(t, s)
	wantBlocks(t, s, "1: a")
	const rows = "SELECT COUNT(*) FROM {{tags}}"
	if n := value[int](t, s, rows); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if err := complete(s, l); err != nil {
		t.Fatal(err)
	}
	sweepAnew(t, s)
	if n := value[int](t, s, rows); n != 0 {
		t.Errorf("%d rows after the end, want none", n)
	}
}

// A claim whose transaction is still open when a sweep looks at its time is found once it is committed, by its scope and
// by its state, also after sweeps that compare blocks with records.
//
// Seen to fail with READ COMMITTED in uncommitted.
func TestLateCommitIsFound(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	l := acquireIn(t, s, "late", "k")
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	// A row as a claim has written it that is not committed.
	d := l.Key.Digest()
	for _, text := range []string{
		"CREATE TEMPORARY TABLE saved AS SELECT * FROM {{claims}}", "DELETE FROM {{claims}}",
	} {
		execute(t, s, strings.Replace(text, "TEMPORARY ", "", 1))
	}
	if _, err := tx.ExecContext(t.Context(), inDatabase("INSERT INTO {{claims}} SELECT * FROM saved", s.options.Database)); err != nil {
		t.Fatal(err)
	}
	acquireIn(t, s, "other", "other")
	indexNow(t, s, 3)
	wantFound(t, s, "before the commit", inScope("late"), "")
	review := func() {
		t.Helper()
		err := s.with(t.Context(), func(c *conn) error {
			_, _, err := s.review(t.Context(), c, 0, 1<<62)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	review()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFound(t, s, "committed", inScope("late"), "k")
	wantFound(t, s, "committed", inState(retrysafe.Pending), "other k")
	if records, err := s.Inspect(t.Context(), d); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// Pages by scope and by state show each record once, in order, whatever part of the records is in blocks, and also if many
// have the same first fence.
func TestPagesOfSearches(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	const n = 240
	execute(t, s, fmt.Sprintf(`INSERT INTO {{claims}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
		keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id)
		SELECT UNHEX(MD5(seq)), '', at, at, at, {{now}} + 9e13, 9e13, 9e13, 9e13, 1e8, 1, 0, 200,
			CASE WHEN seq %% 7 = 0 THEN 4 WHEN seq %% 11 = 0 THEN 1 ELSE 3 END, 0, 'f',
			CONCAT(CASE WHEN RAND() < 0.1 THEN 'rare/' ELSE 'busy/' END, seq %% 2), seq
		FROM (SELECT seq, {{now}} - 3600000000 + seq DIV 3 AS at FROM seq_1_to_%d) numbers`, n))
	all, err := s.List(t.Context(), retrysafe.ListParams{Limit: 1000})
	if err != nil || len(all) != n {
		t.Fatalf("%d records, %v", len(all), err)
	}
	for _, part := range []int{0, n / 2, n} {
		size := 1 + rand.IntN(40)
		if part > 0 {
			err := s.with(t.Context(), func(c *conn) error {
				p, err := s.progress(t.Context(), c)
				p.now = all[n-part].FirstFence + settled + 1
				for more := true; more && err == nil; {
					more, err = s.addToBlock(t.Context(), c, &p, size)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 12 {
			p := retrysafe.FindParams{ListParams: retrysafe.ListParams{Limit: 1 + rand.IntN(20)}}
			scopes, prefixes := []string{"rare/0", "busy/1", "none"}, []string{"rare/", "busy/", "b", "busy/1", "c", ""}
			switch i := rand.IntN(len(scopes) + len(prefixes) + 2); {
			case i < len(scopes):
				p.Scope = &scopes[i]
			case i < len(scopes)+len(prefixes):
				p.ScopePrefix = prefixes[i-len(scopes)]
			default:
				p.State = []retrysafe.State{retrysafe.Pending, retrysafe.Failed}[i-len(scopes)-len(prefixes)]
			}
			var want, got []string
			for _, r := range all {
				if (p.Scope == nil || *p.Scope == r.Key.Scope) && strings.HasPrefix(r.Key.Scope, p.ScopePrefix) &&
					(p.State == 0 || p.State == r.State) {
					want = append(want, r.Key.ID)
				}
			}
			for more := true; more; {
				found, err := s.Find(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range found {
					if p.Before != 0 && r.FirstFence > p.Before {
						t.Fatalf("%d after %d", r.FirstFence, p.Before)
					}
					got, p.Before = append(got, r.Key.ID), r.FirstFence
				}
				more = len(found) >= p.Limit
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v, %d in blocks of %d: got %d records, want %d", p, part, size, len(got), len(want))
			}
		}
	}
}

// A scope that a few records of each block have is found without reading more blocks than a page needs. Seen to fail
// with len(found) >= p.Limit left out of findInBlocks, and with a subquery of find_blocks.sql for the end of each
// block, which reads all blocks: 1,741 and 653 rows.
func TestSearchStopsAtAPage(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	const n, size, page = 600, 20, 5
	execute(t, s, fmt.Sprintf(`INSERT INTO {{claims}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
		keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id)
		SELECT UNHEX(MD5(seq)), '', at, at, at, {{now}} + 9e13, 9e13, 9e13, 9e13, 1e8, 1, 0, 200, 3, 0, 'f',
			CASE WHEN seq %% %d = 0 THEN 'rare' ELSE 'busy' END, seq
		FROM (SELECT seq, {{now}} - 3600000000 + seq AS at FROM seq_1_to_%d) numbers`, size, n))
	err := s.with(t.Context(), func(c *conn) error {
		p, err := s.progress(t.Context(), c)
		for more := true; more && err == nil; {
			more, err = s.addToBlock(t.Context(), c, &p, size)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	scope := "rare"
	var found []retrysafe.Record
	read := rowsRead(t, s, func(c *conn) (err error) {
		p := withDefaults(retrysafe.FindParams{ListParams: retrysafe.ListParams{Scope: &scope, Limit: page}})
		found, err = s.findInBlocks(t.Context(), c, p)
		return err
	})
	// Each of the blocks of the page is read by the index and by the key; 16 blocks are looked at.
	if most := int64(page*size*3 + 16*4); len(found) != page || read > most {
		t.Errorf("%d found of %d, %d rows read of %d records, want %d at most", len(found), page, read, n, most)
	}
}

// After the clock was set back, blocks of the time that comes again are made anew: each record is found once.
//
// Seen to fail with indexed left as it was.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i := range 5 {
		acquireIn(t, s, "a", fmt.Sprint(i))
	}
	indexNow(t, s, 2)
	execute(t, s, "UPDATE {{progress}} SET value = value + 3600000000 WHERE name = 'indexed'")
	execute(t, s, "UPDATE {{progress}} SET value = {{now}} + 3600000000 WHERE name = 'noted'")
	acquireIn(t, s, "b", "new")
	wantFound(t, s, "not noticed", inScope("b"), "")
	sweepAnew(t, s)
	indexNow(t, s, 2)
	wantFound(t, s, "set back", inScope("b"), "new")
	wantFound(t, s, "set back", inScope("a"), "4 3 2 1 0")
	wantBlocks(t, s, "4: ; a; a; a b")
}
