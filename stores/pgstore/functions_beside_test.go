package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// A service that stands still between complete and COMMIT holds up no other key, and not the functions: they say that
// its key is in flight, also once its lease has run out and another attempt wants it. A program in Go waits a second
// for it, and not for others. After COMMIT all get the answer, and a late heartbeat learns that the lease has ended.
//
// Seen to fail with SET lock_timeout taken out of claim: it waited until the context ended.
func TestOpenCompletionHoldsUpItsKeyOnly(t *testing.T) {
	t.Parallel()
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			direct, _ := setting{isolation: isolation}.place(t)
			s := openOn(t, openPool(t, direct), Options{Connections: 1})
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			p := params("held")
			p.TakeOver = true
			c, err := s.Claim(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Extend(ctx, c.Lease, 0); err != nil {
				t.Fatal(err)
			}
			tx, err := s.pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if _, err := tx.Exec(ctx, "SELECT retrysafe.hold($1), retrysafe.complete($1, 'answer')", c.Lease.Token()); err != nil {
				t.Fatal(err)
			}
			const claim = "SELECT verdict FROM retrysafe.claim('tenant', 'held', 'raw1:one', take_over => true)"
			var verdict string
			if err := s.pool.QueryRow(ctx, claim).Scan(&verdict); err != nil || verdict != "in_flight" {
				t.Fatalf("claim = %s, %v; want in_flight", verdict, err)
			}
			p.Owner = retrysafe.NewOwner()
			held, extended := make(chan outcome, 1), make(chan error, 1)
			go func() {
				c, err := s.Claim(context.WithoutCancel(ctx), p)
				held <- outcome{c, err}
			}()
			go func() { extended <- s.Extend(context.WithoutCancel(ctx), c.Lease, time.Minute) }()
			eventually(t, "the program waits for the row", func() bool { return lockWaits(t, s) > 0 })
			for i := range 10 {
				if other, err := s.Claim(ctx, params(fmt.Sprint("other ", i))); err != nil || other.Verdict != retrysafe.Acquired {
					t.Fatalf("claim of another key = %v, %v", other.Verdict, err)
				}
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if o := <-held; o.err != nil || o.claim.Verdict != retrysafe.Done && o.claim.Verdict != retrysafe.InFlight {
				t.Errorf("the program's claim = %v, %v; want it done or in flight", o.claim.Verdict, o.err)
			}
			if err := <-extended; !errors.Is(err, retrysafe.ErrLeaseLost) {
				t.Errorf("Extend = %v, want ErrLeaseLost", err)
			}
			if err := s.pool.QueryRow(ctx, claim).Scan(&verdict); err != nil || verdict != "done" {
				t.Errorf("claim = %s, %v; want done", verdict, err)
			}
		})
	}
}

// Digests, tokens and child keys are those of Go, whatever bytes a key has and however long it is.
//
// Seen to fail with the loop of length_prefixed made an IF: child keys of the longest names differed.
func TestFunctionsDeriveWhatGoDerives(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.IntN(256))
		}
		return string(b)
	}
	lengths := []int{1, 2, 16, 126, 127, 128, 129, 255, 256, 1023, 1024}
	for i := range 300 {
		key := retrysafe.Key{Scope: text(rand.IntN(1025)), ID: text(lengths[i%len(lengths)])}
		name := strings.ToValidUTF8(strings.ReplaceAll(text(1+rand.IntN(300)), "\x00", "0"), "ö") + "ü"
		if i%50 == 0 {
			name = strings.Repeat(name, 20_000/len(name)+1) // its length has three bytes
		}
		owner := retrysafe.NewOwner()
		var digest, lease, child string
		var fence int64
		err := s.pool.QueryRow(t.Context(), `SELECT retrysafe.digest($1::bytea, $2::bytea)::text, lease, fence,
			retrysafe.child_key(lease, $3) FROM retrysafe.claim($1::bytea, $2::bytea, owner => $4::text::uuid)`,
			[]byte(key.Scope), []byte(key.ID), name, owner.String()).Scan(&digest, &lease, &fence, &child)
		if err != nil {
			t.Fatal(err)
		}
		l := retrysafe.Lease{Key: key, Owner: owner, Fence: fence}
		if got := strings.ReplaceAll(digest, "-", ""); got != key.Digest().String() || lease != l.Token() || child != key.Child(name) {
			t.Fatalf("scope %q, ID %q, name %q: got digest %s, child %s, same token %v; want %s, %s, true", key.Scope, key.ID,
				name, got, child, lease == l.Token(), key.Digest(), key.Child(name))
		}
	}
}

// The proxy reads the header that complete has saved, and claim shows that which the proxy has saved.
//
// Seen to fail with the names left as they are passed, and with as_text reading Latin-1 alone.
func TestHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	lines := []string{"location: /charges/17", "LINK: <a>; rel=next", "Link:<b>", "X-Name: Zoë: one", "Empty:", "x-trace-ID: \t7 "}
	want := http.Header{
		"Content-Type": {"text/plain; charset=utf-8"}, "Location": {"/charges/17"}, "Link": {"<a>; rel=next", "<b>"},
		"X-Name": {"Zoë: one"}, "Empty": {""}, "X-Trace-Id": {"7"},
	}
	for id, save := range map[string]func(retrysafe.Lease) error{
		"function": func(l retrysafe.Lease) error {
			return inBlock(t, s.pool, "SELECT retrysafe.complete($1, 'paid', 201, 'text/plain; charset=utf-8', $2)", l.Token(), lines)
		},
		"proxy": func(l retrysafe.Lease) error {
			return s.Complete(t.Context(), l, httpsafe.NewResult(201, want, []byte("paid")), retrysafe.Retention{})
		},
	} {
		if err := save(acquire(t, s, id)); err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), params(id))
		if err != nil {
			t.Fatal(err)
		}
		r := c.Record.Result
		got, ok := httpsafe.HeaderOf(r)
		if !ok || fmt.Sprint(got) != fmt.Sprint(want) || r.Code != 201 || string(r.Body) != "paid" || r.Failed || r.Omitted {
			t.Errorf("%s: the proxy reads %v, %d %q; want %v", id, got, r.Code, r.Body, want)
		}
		var contentType, body string
		var headers []string
		err = s.pool.QueryRow(t.Context(), "SELECT content_type, headers, convert_from(body, 'UTF8') FROM "+
			"retrysafe.claim('tenant', $1, 'raw1:one')", id).Scan(&contentType, &headers, &body)
		slices.Sort(headers)
		shown := []string{"Empty: ", "Link: <a>; rel=next", "Link: <b>", "Location: /charges/17", "X-Name: Zoë: one", "X-Trace-Id: 7"}
		if err != nil || contentType != want.Get("Content-Type") || !slices.Equal(headers, shown) || body != "paid" {
			t.Errorf("%s: claim shows %q, %q, %q, %v", id, contentType, headers, body, err)
		}
	}
}

// A body of type jsonb is kept as the text that PostgreSQL makes of it, and read as JSON by people.
func TestBodyOfJSON(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for _, kind := range []string{"text", "bytea", "jsonb"} {
		if err := inBlock(t, s.pool, "SELECT retrysafe.complete($1, $2::text::"+kind+")", acquire(t, s, kind).Token(),
			`{"amount": 10}`); err != nil {
			t.Fatal(err)
		}
		got := value[json.RawMessage](t, s, "SELECT json FROM {{schema}}.records WHERE id = $1", kind)
		if string(got) != `{"amount": 10}` {
			t.Errorf("%s: got %s", kind, got)
		}
	}
}

// complete makes the partition of today, and claim that of tomorrow, as a role without a right to either.
//
// Seen to fail with add_days taken out of end_attempt: no partition of relation found.
func TestFunctionsMakePartitions(t *testing.T) {
	t.Parallel()
	super, service := serviceDatabase(t)
	const drop = `DO $$ DECLARE part regclass; BEGIN
		FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'keys.results'::regclass LOOP
			EXECUTE 'DROP TABLE ' || part; END LOOP; END $$`
	const days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'keys.results'::regclass"
	for _, isolation := range isolations {
		lease := one[string](t, service, "SELECT lease FROM keys.claim('', $1)", isolation)
		if n := one[int](t, super, days); n < 2 {
			t.Errorf("%d days after a claim, want tomorrow's too", n)
		}
		if _, err := super.Exec(t.Context(), drop); err != nil {
			t.Fatal(err)
		}
		err := pgx.BeginTxFunc(t.Context(), service, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(isolation)}, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT keys.hold($1), keys.complete($1, '')", lease)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", isolation, err)
		}
	}
}

// withoutTags makes the statements of a program that knows no tags.
var withoutTags = strings.NewReplacer(
	"scope, id, tags)", "scope, id)", ", nullif(p.tags, '')", "", ", c.tags,", ", NULL::bytea,", "ctid, tags", "ctid, NULL::bytea",
	",\n\ttags = CASE WHEN c.ends_at + c.keep_key > excluded.claimed_at THEN c.tags ELSE excluded.tags END", "",
)

// A program that knows version 2 works on while the functions are added, beside services that call them, and can be
// gone back to. Seen to fail with the oldest of 003 set to 3.
func TestMigrateToFunctionsBesideAnOlderProgram(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	migrateTo(t, pool, 2)
	// Its statements are those of today without tags; what it knows of the schema is two versions.
	if _, err := pool.Exec(t.Context(), "INSERT INTO retrysafe.migrations VALUES ($1, 'not yet')", newestVersion()); err != nil {
		t.Fatal(err)
	}
	older := openOn(t, pool, Options{})
	for i, q := range older.sql.steps {
		older.sql.steps[i] = statement{withoutTags.Replace(q.many), withoutTags.Replace(q.one)}
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM retrysafe.migrations WHERE version > 2"); err != nil {
		t.Fatal(err)
	}
	migrated, worked := make(chan struct{}), make(chan int)
	go func() {
		rounds := 0
		for over := false; !over || rounds < 3; rounds++ {
			callEverything(t, older, 8)
			select {
			case <-migrated:
				over = true
			default:
			}
		}
		worked <- rounds
	}()
	applied, err := Migrate(t.Context(), pool, MigrateOptions{})
	if err != nil || len(applied) != newestVersion()-2 {
		t.Errorf("Migrate = %d migrations, %v", len(applied), err)
	}
	close(migrated)
	together(t, 8, func(i int) error {
		var lease string
		err := pool.QueryRow(context.Background(), "SELECT lease FROM retrysafe.claim('tenant', $1, 'raw1:one')", fmt.Sprint(i)).Scan(&lease)
		if err != nil {
			return err
		}
		return inBlock(t, pool, "SELECT retrysafe.complete($1, 'answer')", lease)
	})
	t.Logf("the older program went on for %d rounds", <-worked)
	for i := range 8 { // it reads what the services have completed
		c, err := older.Claim(t.Context(), params(fmt.Sprint(i)))
		if err != nil || c.Verdict != retrysafe.Done || string(c.Record.Result.Body) != "answer" {
			t.Errorf("claim of key %d = %v, %v", i, c.Verdict, err)
		}
	}
	if err := checkVersion(t.Context(), pool, "retrysafe", 2); err != nil {
		t.Errorf("the older program, started again: %v", err)
	}
}
