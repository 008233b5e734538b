package recipes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// clients returns connections to one fresh database.
func clients(t *testing.T, n int, prepare string) []*pgx.Conn {
	t.Helper()
	url := shared.Get(t).Database(t)
	conns := make([]*pgx.Conn, n)
	for i := range conns {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		conns[i] = conn
	}
	change(t, conns[0], prepare)
	return conns
}

// change runs a statement and returns the number of affected rows.
func change(t *testing.T, c *pgx.Conn, sql string, args ...any) int64 {
	t.Helper()
	tag, err := c.Exec(context.Background(), sql, args...)
	if err != nil {
		t.Error(err)
	}
	return tag.RowsAffected()
}

// together runs f on each connection at the same time.
func together(conns []*pgx.Conn, f func(c *pgx.Conn)) {
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { f(c) })
	}
	all.Wait()
}

const (
	insertOrSelect = `WITH mine AS (INSERT INTO keys VALUES ($1, 'in_flight') ON CONFLICT DO NOTHING RETURNING status)
		SELECT status FROM mine UNION ALL SELECT status FROM keys WHERE key = $1`
	insert     = `INSERT INTO keys VALUES ($1, 'in_flight') ON CONFLICT DO NOTHING RETURNING status`
	thenSelect = `SELECT status FROM keys WHERE key = $1`
)

// Unlike on the page, where it makes the steps visible, no transaction stays open here. Seen to fail with both ways
// made the same.
func TestOneStatementFindsNothingWhenRetriesArriveTogether(t *testing.T) {
	const rounds = 50
	conns := clients(t, 8, "CREATE TABLE keys (key text PRIMARY KEY, status text)")
	nothing := func(way string, send func(b *pgx.Batch, key string)) (n int64) {
		var unanswered atomic.Int64
		for round := range rounds {
			key := fmt.Sprint(way, round)
			together(conns, func(c *pgx.Conn) {
				var b pgx.Batch
				send(&b, key)
				results := c.SendBatch(context.Background(), &b)
				defer results.Close()
				rows := int64(0)
				for range b.Len() {
					tag, err := results.Exec()
					if err != nil {
						t.Error(err)
					}
					rows += tag.RowsAffected()
				}
				if rows == 0 {
					unanswered.Add(1)
				}
			})
		}
		return unanswered.Load()
	}
	one := nothing("one", func(b *pgx.Batch, key string) { b.Queue(insertOrSelect, key) })
	two := nothing("two", func(b *pgx.Batch, key string) { b.Queue(insert, key); b.Queue(thenSelect, key) })
	t.Logf("of %d requests %d got no row of one statement, %d of two", rounds*len(conns), one, two)
	if one == 0 || two != 0 {
		t.Errorf("no row: %d of one statement, want some; %d of two, want none", one, two)
	}
}

const (
	locks    = `CREATE TABLE keys (key text PRIMARY KEY, locked_at timestamptz, fence bigint DEFAULT 1)`
	begin    = `INSERT INTO keys VALUES ('k1', now()) ON CONFLICT DO NOTHING`
	lapse    = `UPDATE keys SET locked_at = now() - interval '1 hour'`
	reset    = `UPDATE keys SET locked_at = now() WHERE locked_at < now() - interval '5 minutes'`
	takeOver = `UPDATE keys SET locked_at = now(), fence = fence + 1
			WHERE locked_at < now() - interval '5 minutes' RETURNING fence`
)

// Seen to fail with a reset that deletes, which lets all 20 run, and with an unconditional take-over.
func TestWhatIsResetIsNeverClaimed(t *testing.T) {
	conns := clients(t, 8, locks)
	change(t, conns[0], begin) // and the process died
	var resets, runs, takeOvers atomic.Int64
	for range 20 {
		change(t, conns[0], lapse)
		together(conns, func(c *pgx.Conn) {
			if change(t, c, begin) == 1 {
				runs.Add(1)
			} else {
				resets.Add(change(t, c, reset))
			}
		})
	}
	change(t, conns[0], lapse)
	together(conns, func(c *pgx.Conn) { takeOvers.Add(change(t, c, takeOver)) })
	if runs.Load() != 0 || resets.Load() != 20 || takeOvers.Load() != 1 {
		t.Errorf("%d runs after %d resets, want 0 after 20; %d take-overs, want 1", runs.Load(), resets.Load(),
			takeOvers.Load())
	}
}
