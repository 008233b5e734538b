package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goal 12: a claim takes as long among millions of records as in an empty store.

// latencyRecords is the number of records at full length, unless the memory or the time for filling is too short.
const latencyRecords = 10_000_000

func latencyGoal(ctx context.Context, r *run) error {
	var errs []error
	for _, kind := range []string{"memstore", "sqlitestore", "pgstore", "redisstore"} {
		if err := measureLatency(ctx, r, kind); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
	}
	return errors.Join(errs...)
}

func measureLatency(ctx context.Context, r *run, kind string) (err error) {
	asked := r.records
	if r.quick {
		asked = min(asked, 100_000)
	}
	in := latency{
		race: r.race(7, 5, time.Second), Empty: storeAt{Kind: kind}, Full: storeAt{Kind: kind},
		Records: asked, Fill: r.length(2 * time.Minute),
	}
	if bytes := recordMemory()[kind]; bytes > 0 {
		in.Records = min(asked, freeMemory()/2/bytes)
	}
	r.progress("%s: fill up to %s records", kind, figure.Short(float64(in.Records)))
	stop, err := in.start(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	got, err := call[latencyFound](ctx, r.here(), in)
	if err != nil {
		return err
	}
	fig := figure.Ratio(fmt.Sprintf("%s: claim's p50, %s records ÷ none", kind, figure.Short(float64(got.Records))),
		got.Sides[full].P50, got.Sides[empty].P50, "µs").Want(figure.AtMost(1.3)).Note("one caller, fresh keys")
	if got.Records < asked {
		fig = fig.Note("no more records fit into %s of filling, or into the memory", in.Fill)
	}
	if kind != "memstore" {
		fig = fig.On(disk.AsIs().Name)
	}
	r.add(ctx, fig)
	return nil
}

// recordMemory returns how many bytes of the machine's memory a record takes, for the stores that keep records there.
func recordMemory() map[string]int64 { return map[string]int64{"memstore": 1300, "redisstore": 900} }

// latency measures a store at two places, of which it fills one.
type latency struct {
	race
	Empty, Full storeAt
	// Records is the number of records to fill in, Inserted how many are there already, Fill the time for it.
	Records, Inserted int64
	Fill              time.Duration
}

// latencyFound holds the number of records, and what claims took at both places.
type latencyFound struct {
	Records int64
	Sides   results
}

// The sides are two stores.
const (
	empty = "empty"
	full  = "full"
)

// start starts the store's servers, if it has any, and sets the places. stop ends them and removes their data.
func (in *latency) start(ctx context.Context, r *run) (stop func() error, err error) {
	switch in.Full.Kind {
	case "sqlitestore":
		dir, err := os.MkdirTemp(r.dir, "latency")
		in.Empty.Address, in.Full.Address = filepath.Join(dir, "empty.db"), filepath.Join(dir, "full.db")
		return func() error { return os.RemoveAll(dir) }, err
	case "pgstore":
		s, err := startPostgres(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := in.insert(ctx, s); err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s.close, nil
	case "redisstore": // two servers: a command takes as long as its server takes, whatever the prefix
		one, err := startRedis("everysec")
		if err != nil {
			return nil, err
		}
		other, err := startRedis("everysec")
		if err != nil {
			return nil, errors.Join(err, one.Close())
		}
		in.Empty.Address, in.Full.Address = one.Address(), other.Address()
		return func() error { return errors.Join(one.Close(), other.Close()) }, nil
	}
	return func() error { return nil }, nil
}

// insert fills a schema by statements: claims and completions would take most of the run.
func (in *latency) insert(ctx context.Context, s *pgServer) error {
	for schema, at := range map[string]*storeAt{"empty": &in.Empty, "large": &in.Full} {
		place, err := s.store(ctx, schema)
		if err != nil {
			return err
		}
		at.Address, at.Schema = place.URL, place.Schema
	}
	const second = 1_000_000
	var err error
	in.Inserted, err = in.inParts(func(n int64) error { return s.insert(ctx, "large", n, second) })
	return errors.Join(err, s.settle(ctx, "large"))
}

// inParts adds records part by part until there are enough or the time for it has passed, and returns their number.
func (in *latency) inParts(add func(n int64) error) (records int64, err error) {
	const part = 250_000
	for began := time.Now(); records < in.Records && time.Since(began) < in.Fill; {
		n := min(part, in.Records-records)
		if err := add(n); err != nil {
			return records, err
		}
		records += n
	}
	return records, nil
}

func (in latency) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	none, endNone, err := in.Empty.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endNone()) }()
	many, endMany, err := in.Full.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endMany()) }()
	found := latencyFound{Records: in.Inserted}
	if in.Inserted == 0 {
		var filled int64
		found.Records, err = in.inParts(func(n int64) error {
			filled += n
			return fillStore(ctx, many, filled-n, filled)
		})
		if err != nil {
			return nil, err
		}
	}
	found.Sides, err = in.run(ctx, side{name: empty, peer: claimsOf(none), callers: 1},
		side{name: full, peer: claimsOf(many), callers: 1})
	return found, err
}

// storeAt is a store that a role opens: its kind, its path or the address of its server, and its schema.
type storeAt struct{ Kind, Address, Schema string }

func (at storeAt) open(ctx context.Context) (_ retrysafe.Store, end func() error, err error) {
	switch at.Kind {
	case "memstore":
		s := memstore.New(memstore.Options{MaxKeys: math.MaxInt, MaxBytes: math.MaxInt64})
		return s, func() error { return nil }, nil
	case "sqlitestore":
		s, err := sqlitestore.Open(at.Address, sqlitestore.Options{})
		return s, s.Close, err
	case "pgstore":
		s, err := pgPlace{at.Address, at.Schema}.open(ctx)
		return s, s.close, err
	case "mysqlstore":
		db, err := sql.Open("mysql", at.Address)
		if err != nil {
			return nil, nil, err
		}
		s, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
		return s, func() error { return errors.Join(s.Close(), db.Close()) }, err
	case "redisstore":
		s, client, err := openRedis(ctx, at.Address)
		return s, func() error { client.Close(); return nil }, err
	}
	return nil, nil, fmt.Errorf("no store %q", at.Kind)
}

// claimsOf returns a Peer that makes pairs in sequence, whatever the number of callers, and measures their claims
// alone.
func claimsOf(s retrysafe.Store) peers.Peer {
	result := peers.Result()
	return func(ctx context.Context, _ int, d time.Duration) (done peers.Done, err error) {
		var micros figure.Samples
		for began := time.Now(); time.Since(began) < d; {
			p := freshParams()
			before := time.Now()
			lease, err := acquire(ctx, s, p)
			micros = append(micros, float64(time.Since(before))/float64(time.Microsecond))
			if err == nil {
				err = s.Complete(ctx, lease, result, retrysafe.Retention{})
			}
			if err != nil {
				return done, err
			}
		}
		return peers.Done{Count: int64(len(micros)), P50: micros.Median()}, nil
	}
}
