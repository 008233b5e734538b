package outbox

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
)

// Behind PgBouncer in transaction mode each transaction may use another server connection. Everything works in the
// modes of docs/outbox.md, with fewer connections than relays. In pgx's default mode the test fails, because of
// statements that were prepared on other connections.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	direct := newKit(t, outbox.PostgreSQL)
	bouncer := servers.StartPgBouncer(t, shared.Get(t), servers.PgBouncerOptions{PoolSize: 2})
	for _, mode := range []string{"cache_describe", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			k := &kit{T: t, database: database{
				outbox.PostgreSQL,
				withParam(bouncer.Through(t, direct.url), "default_query_exec_mode="+mode),
			}}
			k.connect()
			k.box = k.newBox(outbox.Options{Table: "outbox_" + mode})
			k.throughTheBouncer()
			k.box = k.newBox(outbox.Options{Table: "put_" + mode}) // of which no relay takes
			putAnything(k)
		})
	}
}

func withParam(url, param string) string {
	if strings.Contains(url, "?") {
		return url + "&" + param
	}
	return url + "?" + param
}

// throughTheBouncer saves with both kinds of transactions, sends in order with several relays, and redelivers and
// drops letters.
func (k *kit) throughTheBouncer() {
	pool := openPool(k, k.url)
	for i := range 60 {
		m := outbox.Message{
			Aggregate: string(rune('a' + i%3)), Header: map[string]string{"a": "b"},
			Body: []byte{0, 255, byte(i)},
		}
		if i%2 == 0 {
			k.save(m)
			continue
		}
		err := pgx.BeginFunc(k.Context(), pool, func(tx pgx.Tx) error { return outbox.SavePgx(k.Context(), k.box, tx, m) })
		if err != nil {
			k.Fatal(err)
		}
	}
	k.save(outbox.Message{Key: "again"}, outbox.Message{Key: "never"})
	var mu sync.Mutex
	got := map[string][]byte{}
	sink := outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error {
		mu.Lock()
		defer mu.Unlock()
		answers := make([]error, len(batch))
		for i, d := range batch {
			if d.Key == "again" || d.Key == "never" {
				answers[i] = outbox.Permanent(errors.New("no"))
				continue
			}
			got[d.Aggregate] = append(got[d.Aggregate], d.Body[2])
		}
		return answers
	})
	var all []*events
	for range 3 {
		told, _ := k.relay(sink, outbox.RelayOptions{Batch: 5, Workers: 2, SweepEvery: time.Millisecond})
		all = append(all, told)
	}
	k.until(func() bool { return k.stats().Pending == 0 })
	if s := k.stats(); s.Dead != 2 {
		k.Errorf("got %+v, want two dead letters", s)
	}
	for aggregate, numbers := range got {
		for i, n := range numbers {
			if want := byte(i*3) + aggregate[0] - 'a'; n != want || len(numbers) != 20 {
				k.Errorf("%s: message %d of %d is %d, want %d of 20", aggregate, i, len(numbers), n, want)
			}
		}
	}
	if n, err := k.box.Redeliver(k.Context(), "again"); n != 1 || err != nil {
		k.Errorf("redelivered %d, %v", n, err)
	}
	if n, err := k.box.Drop(k.Context(), "never"); n != 1 || err != nil {
		k.Errorf("dropped %d, %v", n, err)
	}
	k.until(func() bool { return k.stats().Dead == 1 })
	for _, told := range all {
		if failed := told.of(outbox.DatabaseFailed); len(failed) > 0 {
			k.Errorf("%d failures: %v", len(failed), failed[0].Err)
		}
	}
}
