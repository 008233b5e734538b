package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
)

// keptRows is how many rows of tags and of sightings there are.
func keptRows(t testing.TB, s *Store) (tags, sightings int) {
	t.Helper()
	return value[int](t, s, "SELECT COUNT(*) FROM {{tags}}"), value[int](t, s, "SELECT COUNT(*) FROM {{sightings}}")
}

// A page of a search reads about as many rows as it has, however many there are: of the index that fits, in its order.
// Seen to fail with each FORCE INDEX of newSearch as IGNORE INDEX, with the first fence's conditions for MinAge and MaxAge
// taken out, and with another order in list_from.sql; with other conditions the rules of storetest fail.
func TestSearchesUseAnIndex(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	const rows, page = 8000, 20
	now := value[int64](t, s, "SELECT {{now}}")
	for _, table := range []string{"claims", "older"} {
		execute(t, s, fmt.Sprintf(`INSERT INTO {{%s}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
			keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id, tags, tags_of)
			SELECT UNHEX(MD5(seq)), '', %[2]d - 60000000 * seq, %[2]d - 60000000 * seq, %[2]d - 60000000 * seq, %[2]d, 9e13, 9e13,
			9e13, 1e8, 1, 0, 200, 3, 0, '', CONCAT('scope ', seq %% 10), CASE WHEN seq %% 2 THEN 'same' ELSE CONCAT('id ', seq) END,
			CASE WHEN seq %% 2 THEN 'order=1' END, %[2]d - 60000000 * seq FROM seq_1_to_%d`, table, now, rows))
	}
	execute(t, s, "INSERT INTO {{tags}} SELECT k, first_fence, tags FROM {{claims}} WHERE tags IS NOT NULL")
	for _, table := range []string{"claims", "older", "tags"} {
		execute(t, s, "ANALYZE TABLE {{"+table+"}}")
	}
	middle := retrysafe.ListParams{Limit: page, Before: now - 60000000*rows/2}
	newest := retrysafe.ListParams{Limit: page}
	for name, c := range map[string]struct {
		p    retrysafe.FindParams
		plan string
	}{
		"by tag":            {retrysafe.FindParams{ListParams: middle, Tag: "order=1"}, "range tag"},
		"by no tag":         {retrysafe.FindParams{ListParams: middle, Tag: "order=2"}, "range tag"},
		"by ID":             {retrysafe.FindParams{ListParams: middle, ID: "same"}, "range id"},
		"by ID and tag":     {retrysafe.FindParams{ListParams: middle, ID: "same", Tag: "order=1"}, "range id"},
		"by tag and prefix": {retrysafe.FindParams{ListParams: middle, Tag: "order=1", ScopePrefix: "scope"}, "range tag"},
		"old":               {retrysafe.FindParams{ListParams: newest, MinAge: 100 * time.Hour}, "range first"},
		"new":               {retrysafe.FindParams{ListParams: newest, MaxAge: time.Hour, Tag: ""}, "range first"},
		"none so new":       {retrysafe.FindParams{ListParams: newest, MaxAge: time.Second}, "range first"},
		"by prefix":         {retrysafe.FindParams{ListParams: middle, ScopePrefix: "scope"}, "range first"},
		"listing":           {retrysafe.FindParams{ListParams: middle}, "range first"},
	} {
		var found []retrysafe.Record
		read := rowsRead(t, s, func(c2 *conn) (err error) {
			p := c.p
			found, err = s.find(t.Context(), c2, newSearch(withDefaults(p)), page)
			return err
		})
		// Each of two statements reads a page from both tables, and a join what belongs to it. By age it skips an hour.
		most := int64(20 * page)
		if c.p.MinAge > 0 {
			most += 4 * 60
		}
		if read > most {
			t.Errorf("%s: it read %d rows for %d of %d, want %d at most", name, read, len(found), 2*rows, most)
		}
		if want := !strings.Contains(name, "no"); want != (len(found) > 0) {
			t.Errorf("%s: %d found", name, len(found))
		}
		text := s.filled(s.sql.list, newSearch(withDefaults(c.p))).literal(nil)
		isOther := func(step string) bool { return step != c.plan }
		if used := plan(t, s, text); used[0] != c.plan || len(slices.DeleteFunc(slices.Clone(used), isOther)) != 2 {
			t.Errorf("%s: the plan is %q, want %q first and once more, for the other table", name, used, c.plan)
		}
	}
}

func withDefaults(p retrysafe.FindParams) retrysafe.FindParams {
	if p.Before == 0 {
		p.Before = 1 << 62
	}
	return p
}

// rowsRead is how many rows the server reads for f.
func rowsRead(t *testing.T, s *Store, f func(c *conn) error) int64 {
	t.Helper()
	read := func(c *conn) (sum int64) {
		selected, err := c.QueryContext(context.Background(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
		err = readRows(selected, err, func(row *sql.Rows) error {
			var n int64
			err := row.Scan(new(string), &n)
			sum += n
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return sum
	}
	var before, after int64
	err := s.with(t.Context(), func(c *conn) error {
		before = read(c)
		err := f(c)
		after = read(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return after - before
}

// A claim with tags is one transaction with them. Seen to fail with isTagged taken out of execute.
func TestTagsAreCommittedWithTheClaim(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	claimTagged(t, s, "before", "1")
	execute(t, s, "RENAME TABLE {{tags}} TO elsewhere")
	p := params("k")
	p.Tags = tagsOf(t, map[string]string{"order": "1"})
	if _, err := s.Claim(t.Context(), p); errorNumber(err) != noTable {
		t.Errorf("claim = %v, want that there is no table of tags", err)
	}
	execute(t, s, "RENAME TABLE elsewhere TO {{tags}}")
	if got := findIDs(t, s, retrysafe.FindParams{}); !slices.Equal(got, []string{"before"}) {
		t.Errorf("there are %q, want no record of the claim that failed", got)
	}
}

// Keys with tags and keys without, new and known ones, are claimed in the same batches.
func TestTagsInBatches(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	var want []string
	for i := range 40 {
		if i%4 == 0 {
			claimTagged(t, s, fmt.Sprint(i), "before")
		}
	}
	together(t, 40, func(i int) error {
		p := params(fmt.Sprint(i))
		if i%2 == 0 {
			p.Tags = tagsOf(t, map[string]string{"order": "now", "all": "1"})
		}
		_, err := s.Claim(context.Background(), p)
		return err
	})
	for i := range 40 {
		if i%4 == 2 {
			want = append(want, fmt.Sprint(i))
		}
	}
	for _, tag := range []string{"order=now", "all=1"} {
		got := findIDs(t, s, retrysafe.FindParams{Tag: tag})
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tag, got, want)
		}
	}
}

// AddSightings waits for no record that a transaction holds, and so holds none.
func TestSightingsLockNoRecord(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	l := acquire(t, s, "k")
	defer lockRow(t, s, l.Key)()
	saw(t, s, l)
}

// saw adds a sighting of the record that was first claimed under that lease.
func saw(t testing.TB, s *Store, l retrysafe.Lease) {
	t.Helper()
	err := s.AddSightings(context.Background(), []retrysafe.KeySighting{{
		Digest: l.Key.Digest(), FirstFence: l.Fence, Sighting: retrysafe.Sighting{Kind: retrysafe.SeenReplayed, Count: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// A deadlock is tried again, and adds once.
func TestSightingsAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	l := acquire(t, s, "k")
	saw(t, s, l)
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec(inDatabase("UPDATE {{sightings}} SET seen = 100", s.options.Database)); err != nil {
		t.Fatal(err)
	}
	before := status(t, s.db, "Innodb_row_lock_waits")
	done := make(chan error, 1)
	go func() {
		done <- s.AddSightings(context.Background(), []retrysafe.KeySighting{{
			Digest: l.Key.Digest(), FirstFence: l.Fence, Sighting: retrysafe.Sighting{Kind: retrysafe.SeenReplayed, Count: 1},
		}})
	}()
	eventually(t, "it has given up waiting once", func() bool {
		return status(t, s.db, "Innodb_row_lock_waits") >= before+2
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := value[int](t, s, "SELECT seen FROM {{sightings}}"); n != 101 {
		t.Errorf("seen %d times, want 101", n)
	}
}

// Tags and sightings go when their record is swept, also an archived one, and stay as long as it is there.
func TestSweepDropsTagsAndSightings(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	var leases []retrysafe.Lease
	for i := range 2*piece + 50 {
		l := claimTagged(t, s, fmt.Sprint(i), "1")
		saw(t, s, l)
		leases = append(leases, l)
	}
	keep := retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: 48 * time.Hour}
	for _, l := range leases[:5] {
		if err := s.Complete(t.Context(), l, retrysafe.Result{}, keep); err != nil {
			t.Fatal(err)
		}
	}
	age(t, s, 2*time.Hour)
	claimTagged(t, s, "0", "2")
	sweepOnce(t, s, 1000)
	if tags, sightings := keptRows(t, s); tags != 451 || sightings != 450 {
		t.Errorf("%d tags and %d sightings, want all of them", tags, sightings)
	}
	age(t, s, 30*time.Hour)
	s.sweeper.looked = [2][]byte{slices.Repeat([]byte{0xff}, 16), slices.Repeat([]byte{0xff}, 16)} // it looks at no other row
	if n := sweepOnce(t, s, 1000); n != 446 {
		t.Errorf("swept %d", n)
	}
	if tags, sightings := keptRows(t, s); tags != 5 || sightings != 5 {
		t.Errorf("%d tags and %d sightings, want those of 5 records that are kept for audit", tags, sightings)
	}
	ended := leases[0]
	if err := s.Purge(t.Context(), ended.Key.Digest(), ended.Fence, retrysafe.StepResult{Name: "purged"}); err != nil {
		t.Fatal(err)
	}
	if got := findIDs(t, s, retrysafe.FindParams{Tag: "order=1"}); len(got) != 5 {
		t.Errorf("after Purge %q are found, want all 5", got)
	}
}

// Rows whose record is gone otherwise are found by later passes, each of which looks at a part of them.
func TestSweepFindsRowsWithoutRecord(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	saw(t, s, claimTagged(t, s, "stays", "1"))
	saw(t, s, claimTagged(t, s, "anew", "1"))
	execute(t, s, "UPDATE {{claims}} SET first_fence = first_fence + 1 WHERE id = 'anew'")
	execute(t, s, fmt.Sprintf("INSERT INTO {{tags}} SELECT UNHEX(MD5(seq)), 1, 'order=1' FROM seq_1_to_%d", 2*looks))
	execute(t, s, fmt.Sprintf("INSERT INTO {{sightings}} SELECT UNHEX(MD5(seq)), 1, 1, 1, 1, 1, 1 FROM seq_1_to_%d", 2*looks))
	sweepOnce(t, s, 10)
	if tags, sightings := keptRows(t, s); tags < looks || sightings < looks {
		t.Errorf("after one pass %d tags and %d sightings remain, want that it looks at %d", tags, sightings, looks)
	}
	sweepOnce(t, s, 10)
	sweepOnce(t, s, 10)
	if tags, sightings := keptRows(t, s); tags != 1 || sightings != 1 {
		t.Errorf("%d tags and %d sightings remain, want those of one record", tags, sightings)
	}
	if got := findIDs(t, s, retrysafe.FindParams{Tag: "order=1"}); !slices.Equal(got, []string{"stays"}) {
		t.Errorf("found %q", got)
	}
}

// Programs of version 4 know no tags: a key that one of them starts anew has none. Seen to fail with tags_of taken out
// of {{own_tags}}.
func TestTagsThatAnOlderProgramLeaves(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	claimTagged(t, s, "k", "1")
	execute(t, s, "UPDATE {{claims}} SET fence = fence + 1, first_fence = fence, attempt = 1") // as write.sql does
	shown, err := s.Inspect(t.Context(), params("k").Key.Digest())
	if err != nil || len(shown) != 1 || shown[0].Tags != (retrysafe.Tags{}) {
		t.Errorf("Inspect = %+v, %v, want no tags", shown, err)
	}
	if got := findIDs(t, s, retrysafe.FindParams{Tag: "order=1"}); got != nil {
		t.Errorf("found %q", got)
	}
	if n := value[int](t, s, "SELECT COUNT(*) FROM {{records}} WHERE tags IS NOT NULL"); n != 0 {
		t.Error("the view shows tags")
	}
}

// The view shows tags as text, and how many requests have found a record.
func TestViewShowsTagsAndSightings(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	saw(t, s, claimTagged(t, s, "k", "Zoë"))
	acquire(t, s, "other")
	if got := value[string](t, s, "SELECT CONCAT(tags, ' ', seen) FROM {{records}} WHERE id = 'k'"); got != "order=Zoë 1" {
		t.Errorf("the view shows %q", got)
	}
	if got := value[int](t, s, "SELECT COUNT(*) FROM {{records}} WHERE id = 'other' AND tags IS NULL AND seen IS NULL"); got != 1 {
		t.Error("the view shows tags, or sightings, of a key that has none")
	}
}

// The procedure of claims takes the tags that NewTags takes.
func TestTagsOfProcedures(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	long := strings.Repeat("ä", 64)
	for i, pairs := range []map[string]string{
		{},
		{"order": "1234"},
		{"order": "12", "customer": "Zoë & Söhne", "a.b-c_D": "x=y", "note.2": `it's "100%" \ a`},
		{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
		{"": "1"},
		{"ö": "1"},
		{"ſ": "1"},
		{"a b": "1"},
		{"a\n": "1"},
		{`a"b`: "1"},
		{strings.Repeat("n", 32): long},
		{strings.Repeat("n", 33): "1"},
		{"a": long + "1"},
		{"a": ""},
		{"a": "1\n2"},
		{"a": "\x00"},
		{"a": "1\u0085"},
		{"a": "\x7f"},
		{"a": " "},
		{"a": "\u2028"},
		{"a": "null"},
	} {
		tags, refused := retrysafe.NewTags(pairs)
		id := fmt.Sprint("key ", i)
		options := optionsOf(t, map[string]any{"tags": pairs})
		_, err := callClaim(t.Context(), s.db, s.owner.options.Database, "shop", id, "", options)
		var my *mysql.MySQLError
		if (refused != nil) != (sqlState(err) == "RS006") || refused == nil && err != nil {
			t.Errorf("%q: NewTags says %v, and the procedure %v", pairs, refused, err)
		} else if errors.As(err, &my) && len([]rune(my.Message)) > 127 {
			t.Errorf("the server may cut this message: %s", my.Message)
		}
		var want []string
		if refused == nil {
			want = []string{id}
		}
		if got := findIDs(t, s.owner, retrysafe.FindParams{ID: id}); !slices.Equal(got, want) {
			t.Errorf("%q: found %q, want %q", pairs, got, want)
		}
		if refused != nil {
			continue
		}
		shown, err := s.owner.Inspect(t.Context(), retrysafe.Key{Scope: "shop", ID: id}.Digest())
		if err != nil || len(shown) != 1 || shown[0].Tags != tags {
			t.Errorf("Inspect shows %+v, %v, want the tags %q", shown, err, tags)
		}
		for tag := range tags.Lines() {
			if got := findIDs(t, s.owner, retrysafe.FindParams{Tag: tag, ID: id}); len(got) != 1 {
				t.Errorf("%s finds %q", tag, got)
			}
		}
	}
	for _, bad := range []string{`{"tags": ["a"]}`, `{"tags": "a=b"}`, `{"tags": {"a": 1}}`, `{"tags": {"a": null}}`, `{"tags": 1}`} {
		_, err := callClaim(t.Context(), s.db, s.owner.options.Database, "shop", "bad", "", bad)
		s.wantState(bad, err, "RS006")
	}
}

// A key that a procedure starts anew has the tags of that claim, also none; one that it takes over keeps its own.
func TestProceduresClaimAnew(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	tagged := func(tag string, options string) []string {
		s.claim("k", options)
		return findIDs(t, s.owner, retrysafe.FindParams{Tag: tag})
	}
	const short = `{"lease_for": 1, "keep": 3600, "take_over": true`
	if got := tagged("order=1", short+`, "tags": {"order": "1"}}`); len(got) != 1 {
		t.Errorf("found %q", got)
	}
	age(t, s.owner, time.Minute) // the lease has ended, and the key is taken
	if got := tagged("order=1", short+`, "tags": {"order": "2"}}`); len(got) != 1 {
		t.Errorf("after a take-over: found %q", got)
	}
	if got := findIDs(t, s.owner, retrysafe.FindParams{Tag: "order=2"}); len(got) != 0 {
		t.Errorf("after a take-over: found %q under the tag of the second claim", got)
	}
	age(t, s.owner, 2*time.Hour)
	if got := tagged("order=3", short+`, "tags": {"order": "3"}}`); len(got) != 1 {
		t.Errorf("of the new record: found %q", got)
	}
	age(t, s.owner, 2*time.Hour)
	if got := tagged("order=3", short+"}"); len(got) != 0 {
		t.Errorf("found %q under the tag of an earlier record", got)
	}
	if n := value[int](t, s.owner, "SELECT COUNT(*) FROM {{records}} WHERE tags IS NOT NULL"); n != 0 {
		t.Error("the view shows tags of an earlier record")
	}
}
