package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/bench/peers/plain"
	"github.com/retrysafe/retrysafe/outbox"
)

// Goal 15: how many messages relays of an outbox move in a second, beside the relay of most articles on the same server,
// and how long a message waits while others are being saved. The receiver answers at once.

func outboxGoal(ctx context.Context, r *run) (err error) {
	r.progress("start PostgreSQL")
	s, err := startPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.exec(ctx, plain.RelayTable); err != nil {
		return err
	}
	in := relays{race: r.race(5, 3, 0), URL: s.url(), Messages: 10_000}
	if r.Quick {
		in.Messages = 2_000
	}
	var batches figure.Samples
	for _, c := range []struct {
		what   string
		relays int
		each   bool
	}{{"1 relay", 1, false}, {"4 relays", 4, false}, {"1 relay, one by one", 1, true}} {
		in.Relays, in.Theirs, in.Each = c.relays, r.theirs(c.relays), c.each
		r.progress("relays: %s", c.what)
		got, err := call[results](ctx, r.here(), in)
		if err != nil {
			return err
		}
		if batches == nil {
			batches = got[ours].Rate
		}
		r.addHere(ctx, got.rates("outbox ÷ a flag and a lock, "+c.what, "messages/s").
			Want(relayTargets()[c.what]).Note("aim: 5000 a second; %d messages of %d B", in.Messages, relayBody))
		if r.profiled != 0 {
			return nil
		}
	}
	perSecond := int(batches.Median() / 2)
	r.progress("lag at %d messages a second", perSecond)
	lag, err := call[lagFound](ctx, r.here(), relayLag{URL: s.url(), PerSecond: perSecond, For: r.length(10 * time.Second)})
	if err != nil {
		return err
	}
	r.addHere(ctx, figure.New("from save to receiver, 1 relay, p50", "ms", lag.Millis.Medians(lagParts)...).
		Note("aim: p99 at most 1000, no target, since it depends on CPU and disk").Note("p99 %s ms", figure.Short(lag.Millis.Quantile(0.99))).
		Note("%.0f messages/s were saved, ten in a transaction; half of one relay's rate is %d", lag.Rate, perSecond))
	return nil
}

// lagParts is of how many parts of the time the lag's medians are taken: messages that follow each other wait for each
// other.
const lagParts = 20

// relayTargets returns targets by the case. One relay that sends messages one by one has none: its peer sends batches.
func relayTargets() map[string]*figure.Target {
	return map[string]*figure.Target{"1 relay": figure.AtLeast(0.25), "4 relays": figure.AtLeast(0.25)}
}

// relayBody is the size of a message's body.
const relayBody = 500

// relayBatch is the number of messages in a batch.
const relayBatch = 500

// relays moves so many messages in each round, by so many relays.
type relays struct {
	race
	URL            string
	Messages       int
	Relays, Theirs int
	Each           bool // message by message
}

func (in relays) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	db, box, err := openOutbox(ctx, in.URL, "outbox")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pool, err := pgxpool.New(ctx, in.URL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return in.run(ctx, side{name: theirs, peer: in.plainly(db, pool), callers: in.Theirs},
		side{name: ours, peer: in.byOutbox(db, box), callers: in.Relays})
}

// openOutbox opens an outbox, and makes its tables.
func openOutbox(ctx context.Context, url, table string) (*sql.DB, *outbox.Outbox, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(90)
	db.SetMaxIdleConns(90)
	box, err := outbox.New(db, outbox.PostgreSQL, outbox.Options{Table: table})
	if err == nil {
		_, err = box.Migrate(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, box, nil
}

// refill empties a table and executes the statement that fills it, with the number of messages.
func (in relays) refill(ctx context.Context, db *sql.DB, table, fill string) error {
	if _, err := db.ExecContext(ctx, "TRUNCATE "+table); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, fill, in.Messages)
	return err
}

// byOutbox is a Peer whose callers are relays.
func (in relays) byOutbox(db *sql.DB, box *outbox.Outbox) peers.Peer {
	return func(ctx context.Context, n int, _ time.Duration) (done peers.Done, err error) {
		if err := in.refill(ctx, db, "outbox", `INSERT INTO outbox
			(key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
			SELECT convert_to(gen_random_uuid()::text, 'UTF8'), 'orders', '', '', convert_to(repeat('x', `+fmt.Sprint(relayBody)+`),
				'UTF8'), 'd', '', n, n, '', 0, 1, '' FROM generate_series(1, $1::bigint) AS n`); err != nil {
			return done, err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var sent atomic.Int64
		var running sync.WaitGroup
		began := time.Now()
		for range n {
			sink, o := in.sink(&sent)
			running.Go(func() { _ = outbox.NewRelay(box, sink, o).Run(ctx) }) // ends with ctx
		}
		for left := 1; left > 0 && err == nil; {
			time.Sleep(2 * time.Millisecond)
			if sent.Load() >= int64(in.Messages) {
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM outbox WHERE state = 1").Scan(&left)
			}
		}
		took := time.Since(began)
		stop()
		running.Wait()
		if err == nil && sent.Load() != int64(in.Messages) {
			err = fmt.Errorf("%d messages were sent, not %d", sent.Load(), in.Messages)
		}
		return peers.Done{Count: sent.Load(), PerSecond: float64(sent.Load()) / took.Seconds()}, err
	}
}

func (in relays) sink(sent *atomic.Int64) (outbox.Sink, outbox.RelayOptions) {
	if in.Each {
		return outbox.Each(64, func(context.Context, outbox.Delivery) error {
			sent.Add(1)
			return nil
		}), outbox.RelayOptions{Batch: relayBatch}
	}
	return outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error {
		sent.Add(int64(len(batch)))
		return make([]error, len(batch))
	}), outbox.RelayOptions{Workers: 4, Batch: relayBatch}
}

// plainly is a Peer whose callers are relays with plain statements.
func (in relays) plainly(db *sql.DB, pool *pgxpool.Pool) peers.Peer {
	return func(ctx context.Context, n int, _ time.Duration) (done peers.Done, err error) {
		if err := in.refill(ctx, db, "plain_outbox", `INSERT INTO plain_outbox (topic, body)
			SELECT 'orders', convert_to(repeat('x', `+fmt.Sprint(relayBody)+`), 'UTF8') FROM generate_series(1, $1::bigint)`); err != nil {
			return done, err
		}
		var sent atomic.Int64
		began := time.Now()
		all, ctx := errgroup.WithContext(ctx)
		for range n {
			all.Go(func() error {
				for {
					taken, err := plain.Relay(ctx, pool, relayBatch, func([]byte) { sent.Add(1) })
					if err != nil || taken == 0 {
						return err
					}
				}
			})
		}
		err = all.Wait()
		return peers.Done{Count: sent.Load(), PerSecond: float64(sent.Load()) / time.Since(began).Seconds()}, err
	}
}

// relayLag saves messages at a rate while one relay sends them.
type relayLag struct {
	URL       string
	PerSecond int
	For       time.Duration
}

// lagFound has for each message the milliseconds from its save to its receiver, and how many were sent in a second.
type lagFound struct {
	Millis figure.Samples
	Rate   float64
}

func (in relayLag) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	db, box, err := openOutbox(ctx, in.URL, "outbox_lag")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var mu sync.Mutex
	var found lagFound
	relay := outbox.NewRelay(box, outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range batch {
			var at int64
			_, _ = fmt.Sscan(string(d.Body), &at)
			found.Millis = append(found.Millis, millis(time.Since(time.Unix(0, at))))
		}
		return make([]error, len(batch))
	}), outbox.RelayOptions{Workers: 4, Batch: relayBatch})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = relay.Run(running) // with running's error
	}()
	began := time.Now()
	const together, savers = 10, 8
	n := int64(in.For.Seconds() * float64(in.PerSecond) / together)
	err = forEach(ctx, savers, 0, n, func(ctx context.Context, i int64) error {
		time.Sleep(time.Until(began.Add(time.Duration(i) * in.For / time.Duration(n))))
		if err := saveTogether(ctx, db, box, together); err != nil {
			return err
		}
		relay.Wake()
		return nil
	})
	for err == nil {
		mu.Lock()
		sent := int64(len(found.Millis))
		mu.Unlock()
		if sent >= n*together {
			break
		}
		time.Sleep(time.Millisecond)
	}
	found.Rate = float64(n*together) / time.Since(began).Seconds()
	stop()
	<-ended
	return found, err
}

// saveTogether saves messages in one transaction. Each has the time in its body.
func saveTogether(ctx context.Context, db *sql.DB, box *outbox.Outbox, n int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	body := fmt.Appendf(nil, "%-*d", relayBody, time.Now().UnixNano())
	for range n {
		if err := outbox.Save(ctx, box, tx, outbox.Message{Topic: "orders", Body: body}); err != nil {
			return err
		}
	}
	return tx.Commit()
}
