package pgstore

import (
	"context"
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

// putIntoBlocks indexes scopes as two sweeps do, with blocks of so many records.
func putIntoBlocks(t testing.TB, s *Store, size int) {
	t.Helper()
	for range 2 {
		if err := s.noteWriters(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for looked := 5; looked >= 5; {
		if err := s.statesPiece(context.Background(), s.sql.indexScopes, []any{5, size}, &looked); err != nil {
			t.Fatal(err)
		}
	}
}

// review compares all blocks with their records.
func review(t testing.TB, s *Store) {
	t.Helper()
	var dropped int
	if err := s.statesPiece(context.Background(), s.sql.reviewBlocks, []any{1 << 20, true}, &dropped); err != nil {
		t.Fatal(err)
	}
}

// blocks is how many blocks there are, and the scopes that they name.
func blocks(t testing.TB, s *Store) string {
	t.Helper()
	var all []string
	for _, scopes := range value[[][]byte](t, s, "SELECT array_agg(scopes ORDER BY first_fence) FROM {{schema}}.blocks") {
		names := strings.FieldsFunc(string(scopes), func(r rune) bool { return r == 0 })
		slices.Sort(names)
		all = append(all, strings.Join(slices.Compact(names), " "))
	}
	return fmt.Sprint(len(all), ": ", strings.Join(all, "; "))
}

// wantScope expects the records of a scope, or of all scopes that begin with it and a slash.
func wantScope(t testing.TB, s *Store, what, scope, want string) {
	t.Helper()
	for _, p := range []retrysafe.FindParams{
		{ListParams: retrysafe.ListParams{Scope: &scope}}, {ScopePrefix: scope + "/"},
	} {
		found, err := s.Find(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range found {
			ids = append(ids, r.Key.ID)
		}
		expected := want
		if p.Scope == nil {
			expected = ""
		}
		if got := strings.Join(ids, " "); got != expected {
			t.Errorf("%s: scope %q, prefix %q: got %q, want %q", what, scope, p.ScopePrefix, got, expected)
		}
	}
}

// A record is found by its scope before a sweep has put it into a block and after that, whatever becomes of it, and also if
// it was claimed since: a search reads what is newer than the blocks.
//
// Seen to fail with search_recent.sql left out of searchByScope, and in index_scopes.sql with the last block's records left
// out, and with its scopes.
func TestScopesAreFound(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	first := acquireIn(t, s, "a", "1")
	acquireIn(t, s, "b", "2")
	wantScope(t, s, "never swept", "a", "1")
	putIntoBlocks(t, s, 2)
	wantScope(t, s, "swept", "a", "1")
	if err := complete(s, first); err != nil {
		t.Fatal(err)
	}
	between := acquireIn(t, s, "a", "3")
	acquireIn(t, s, "a\x00", "4")
	wantScope(t, s, "claimed since", "a", "3 1")
	if err := complete(s, between); err != nil {
		t.Fatal(err)
	}
	wantScope(t, s, "claimed and completed since", "a", "3 1")
	wantScope(t, s, "none", "c", "")
	putIntoBlocks(t, s, 4)
	if got := blocks(t, s); got != "1: a b" {
		t.Errorf("blocks: got %q", got)
	}
	for i := range 4 {
		acquireIn(t, s, fmt.Sprint("c", i/3), fmt.Sprint(i+5))
	}
	putIntoBlocks(t, s, 4)
	if got := blocks(t, s); got != "2: a b; c0 c1" {
		t.Errorf("blocks: got %q", got)
	}
	wantScope(t, s, "in two blocks", "c0", "7 6 5")
	wantScope(t, s, "in two blocks", "a", "3 1")
	review(t, s)
	if got := blocks(t, s); got != "2: a b; c0 c1" {
		t.Errorf("blocks: got %q", got)
	}
}

// Pages by scope show each record once, in order, whatever the blocks are, and also if many have the same first fence.
//
// Seen to fail with "row_number" instead of rank in index_scopes.sql, and without "c.first_fence DESC" in the order.
func TestPagesOfScopes(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	const n = 300
	execute(t, s, `INSERT INTO {{schema}}.claims SELECT lpad(to_hex(i), 32, '0')::uuid, md5('owner')::uuid, t + i / 3, t + i / 3, t,
		t + 86400000000, 0, 86400000000, 0, (t / 60000000 + 2880)::integer, 1, 0, 0, 3, false, false, false, 'raw1:one',
		convert_to(CASE WHEN random() < 0.1 THEN 'rare/' ELSE 'busy/' END || i % 2, 'UTF8'), i::text::bytea
		FROM (SELECT {{schema}}.clock() - 3600000000) c (t), generate_series(1, $1::integer) i`, n)
	execute(t, s, `INSERT INTO {{schema}}.older SELECT md5(k::text)::uuid, owner, fence, first_fence, claimed_at, ends_at, 0, keep_key, keep_key, sweep_at,
		1, 0, 0, 3, false, false, false, fingerprint, scope, id || 'o' FROM {{schema}}.claims WHERE fence % 5 = 0`)
	all, err := s.List(t.Context(), retrysafe.ListParams{Limit: 1000})
	if err != nil || len(all) < n {
		t.Fatalf("%d records, %v", len(all), err)
	}
	text := func(r retrysafe.Record) string { return fmt.Sprint(r.FirstFence, " ", r.Key) }
	for _, share := range []int64{0, 2, 1} { // what part of the records is in blocks
		size := 1 + rand.IntN(40)
		if share > 0 {
			execute(t, s, "UPDATE {{schema}}.progress SET ready_below = $1", all[int(share-1)*n/2].FirstFence+1)
			for looked := 50; looked >= 50; {
				if err := s.statesPiece(t.Context(), s.sql.indexScopes, []any{50, size}, &looked); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 10 {
			p := retrysafe.FindParams{ListParams: retrysafe.ListParams{Limit: 1 + rand.IntN(20)}}
			scopes := []string{"rare/0", "busy/1", "none"}
			prefixes := []string{"rare/", "busy/", "b", "busy/1", "c", ""}
			if i := rand.IntN(len(scopes) + len(prefixes)); i < len(scopes) {
				p.Scope = &scopes[i]
			} else {
				p.ScopePrefix = prefixes[i-len(scopes)]
			}
			var want, got []string
			for _, r := range all {
				if (p.Scope == nil || *p.Scope == r.Key.Scope) && strings.HasPrefix(r.Key.Scope, p.ScopePrefix) {
					want = append(want, text(r))
				}
			}
			for {
				found, err := s.Find(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				last := p.Before
				for _, r := range found {
					got = append(got, text(r))
					if p.Before = r.FirstFence; last != 0 && p.Before > last {
						t.Fatalf("%d after %d", p.Before, last)
					}
					last = p.Before
				}
				if len(found) < p.Limit {
					break
				}
			}
			if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b[:16], a[:16]) }) {
				t.Fatalf("%+v: not in order", p)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v, blocks of %d, %d: got %d records, want %d", p, size, share, len(got), len(want))
			}
		}
	}
}

// A claim that commits late, with a first fence from before, is found by its scope: no block is made of its time while its
// transaction goes on.
//
// Seen to fail with the clock's time in place of ready_below in index_scopes.sql.
func TestLateCommitIsFoundByScope(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `SELECT retrysafe.claim('late', 'late', 'raw1:one', lease_for => '1 hour')`); err != nil {
		t.Fatal(err)
	}
	acquireIn(t, s, "other", "other")
	for range 2 {
		putIntoBlocks(t, s, 2)
	}
	wantScope(t, s, "before the commit", "other", "other")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantScope(t, s, "committed", "late", "late")
	putIntoBlocks(t, s, 2)
	wantScope(t, s, "swept", "late", "late")
	if got := blocks(t, s); got != "1: late other" {
		t.Errorf("blocks: got %q", got)
	}
}

// The rows of a scope go when its records are gone, and blocks without records do. What was missed, as of a time to which
// the clock was set back, is added.
//
// Seen to fail with each of changed and dropped left out of review_blocks.sql.
func TestScopesGoWithTheirRecords(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i := range 12 {
		l := acquireIn(t, s, fmt.Sprint("s", i%2), fmt.Sprint(i))
		keep := time.Hour
		if i%2 == 1 && i < 6 {
			keep = 90 * time.Hour
		}
		if err := s.Complete(t.Context(), l, retrysafe.Result{}, retrysafe.Retention{Key: keep, Replay: keep, Audit: keep}); err != nil {
			t.Fatal(err)
		}
	}
	putIntoBlocks(t, s, 3)
	if got := blocks(t, s); got != "4: s0 s1; s0 s1; s0 s1; s0 s1" {
		t.Fatalf("blocks: got %q", got)
	}
	age(t, s, 2*time.Hour)
	sweepOnce(t, s, 100)
	execute(t, s, "UPDATE {{schema}}.blocks SET scopes = '\\x00' WHERE first_fence = 0")
	wantScope(t, s, "swept", "s0", "")
	review(t, s)
	if got := blocks(t, s); got != "2: s1; s1" {
		t.Errorf("blocks: got %q", got)
	}
	wantScope(t, s, "reviewed", "s0", "")
	wantScope(t, s, "reviewed", "s1", "5 3 1")
	age(t, s, 100*time.Hour)
	s.sweeper.indexed = time.Time{}
	sweepOnce(t, s, 100)
	if got := blocks(t, s); got != "1: " {
		t.Errorf("blocks: got %q", got)
	}
	acquireIn(t, s, "s0", "again")
	putIntoBlocks(t, s, 3)
	wantScope(t, s, "claimed again", "s0", "again")
}

// After the clock was set back, blocks of the time that comes again are made anew: each record is found once.
//
// Seen to fail without trim_blocks.sql, and with scoped_below left as it was in note_writers.sql.
func TestScopesWithTheClockSetBack(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i := range 9 {
		acquireIn(t, s, fmt.Sprint("s", i%2), fmt.Sprint(i))
	}
	putIntoBlocks(t, s, 2)
	execute(t, s, "UPDATE {{schema}}.progress SET noted_at = noted_at + 3600000000")
	acquireIn(t, s, "s0", "new")
	for range 2 {
		putIntoBlocks(t, s, 4)
		wantScope(t, s, "set back", "s0", "new 8 6 4 2 0")
		wantScope(t, s, "set back", "s1", "7 5 3 1")
	}
	if got := blocks(t, s); got != "3: s0 s1; s0 s1; s0 s1" {
		t.Errorf("blocks: got %q", got)
	}
}
