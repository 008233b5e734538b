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
	"github.com/retrysafe/retrysafe/bench/plots"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goal 12: a claim takes as long among millions of records as in an empty store.

// latencyRecords is the number of records at full length, unless the memory or the time for filling is too short.
const latencyRecords = 10_000_000

// latencyStages returns the numbers of records at which claims are measured, up to the one that is asked for.
func latencyStages(asked int64) (stages []int64) {
	for n := int64(10_000); n < asked; n *= 10 {
		stages = append(stages, n)
	}
	return append(stages, asked)
}

func latencyGoal(ctx context.Context, r *run) error {
	var errs []error
	for _, kind := range []string{"memstore", "sqlitestore", "pgstore", "mysqlstore", "redisstore"} {
		if err := measureLatency(ctx, r, kind); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
	}
	return errors.Join(errs...)
}

func measureLatency(ctx context.Context, r *run, kind string) (err error) {
	asked := r.records
	if r.Quick {
		asked = min(asked, 100_000)
	}
	in := latency{
		race: r.race(7, 5, time.Second), Empty: storeAt{Kind: kind}, Full: storeAt{Kind: kind}, Fill: r.length(2 * time.Minute),
	}
	records := asked
	if bytes := recordMemory()[kind]; bytes > 0 {
		records = min(asked, freeMemory()/2/bytes)
	}
	in.Stages = latencyStages(records)
	r.progress("%s: fill up to %s records", kind, figure.Short(float64(records)))
	server, stop, err := in.start(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var found []latencyFound
	if server != nil {
		found, err = in.atStages(ctx, r, server)
	} else {
		found, err = call[[]latencyFound](ctx, r.here(), in)
	}
	if err != nil {
		return err
	}
	last := found[len(found)-1]
	fig := figure.Ratio(fmt.Sprintf("%s: claim's p50, %s records ÷ none", kind, figure.Short(float64(last.Records))),
		last.Sides[full].P50, last.Sides[empty].P50, "µs").Want(figure.AtMost(1.3)).Note("one caller, fresh keys")
	if last.Records < asked {
		fig = fig.Note("no more records fit into %s of filling, or into the memory", in.Fill)
	}
	if kind != "memstore" {
		fig = fig.On(disk.AsIs().Name)
	}
	for _, at := range found {
		fig = fig.Plotted(plots.Growth, kind, float64(at.Records), at.Sides[full].P50)
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
	// Stages are the numbers of records to fill in, Inserted how many are there already: all of the only stage. Fill is
	// the time for filling.
	Stages   []int64
	Inserted int64
	Fill     time.Duration
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

// start starts the store's servers, if it has any, and sets the places. stop ends them and removes their data. server
// is a PostgreSQL that atStages fills.
func (in *latency) start(ctx context.Context, r *run) (server *pgServer, stop func() error, err error) {
	switch in.Full.Kind {
	case "sqlitestore":
		dir, err := os.MkdirTemp(r.dir, "latency")
		in.Empty.Address, in.Full.Address = filepath.Join(dir, "empty.db"), filepath.Join(dir, "full.db")
		return nil, func() error { return os.RemoveAll(dir) }, err
	case "pgstore":
		s, err := startPostgres(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		for schema, at := range map[string]*storeAt{"empty": &in.Empty, largeSchema: &in.Full} {
			place, err := s.store(ctx, schema)
			if err != nil {
				return nil, nil, errors.Join(err, s.close())
			}
			at.Address, at.Schema = place.URL, place.Schema
		}
		return s, s.close, nil
	case "mysqlstore":
		s, err := startMariaDB(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		for database, at := range map[string]*storeAt{"empty": &in.Empty, "large": &in.Full} {
			if at.Address, err = s.fresh(ctx, database); err != nil {
				return nil, nil, errors.Join(err, s.close())
			}
		}
		return nil, s.close, nil
	case "redisstore": // two servers: a command takes as long as its server takes, whatever the prefix
		one, err := startRedis("everysec")
		if err != nil {
			return nil, nil, err
		}
		other, err := startRedis("everysec")
		if err != nil {
			return nil, nil, errors.Join(err, one.Close())
		}
		in.Empty.Address, in.Full.Address = one.Address(), other.Address()
		return nil, func() error { return errors.Join(one.Close(), other.Close()) }, nil
	}
	return nil, func() error { return nil }, nil
}

// largeSchema is the schema of PostgreSQL that atStages fills.
const largeSchema = "large"

// atStages fills a schema by statements, because claims and completions would take most of the run, and measures at
// each stage.
func (in *latency) atStages(ctx context.Context, r *run, s *pgServer) (found []latencyFound, err error) {
	const second = 1_000_000
	f := filling{left: in.Fill, add: func(first, end int64) error { return s.insert(ctx, largeSchema, end-first, second) }}
	for _, stage := range in.Stages {
		if err := errors.Join(f.upTo(stage), s.settle(ctx, largeSchema)); err != nil {
			return nil, err
		}
		one := *in
		one.Stages, one.Inserted = []int64{f.records}, f.records
		at, err := call[[]latencyFound](ctx, r.here(), one)
		if err != nil {
			return nil, err
		}
		if found = append(found, at...); f.records < stage {
			break
		}
	}
	return found, nil
}

// filling adds records part by part until there are enough or the time for it is over.
type filling struct {
	records int64
	left    time.Duration
	add     func(first, end int64) error
}

func (f *filling) upTo(n int64) error {
	const part = 250_000
	for f.records < n && f.left > 0 {
		end, began := min(f.records+part, n), time.Now()
		if err := f.add(f.records, end); err != nil {
			return err
		}
		f.records, f.left = end, f.left-time.Since(began)
	}
	return nil
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
	f := filling{records: in.Inserted, left: in.Fill, add: func(first, end int64) error {
		return fillStore(ctx, many, first, end)
	}}
	var found []latencyFound
	for _, stage := range in.Stages {
		if err := f.upTo(stage); err != nil {
			return nil, err
		}
		sides, err := in.run(ctx, side{name: empty, peer: claimsOf(none, f.records), callers: 1},
			side{name: full, peer: claimsOf(many, f.records), callers: 1})
		if err != nil {
			return nil, err
		}
		if found = append(found, latencyFound{f.records, sides}); f.records < stage {
			break
		}
	}
	return found, nil
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
		if err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		return s, func() error { return errors.Join(s.Close(), db.Close()) }, nil
	case "redisstore":
		s, client, err := openRedis(ctx, at.Address)
		return s, func() error { client.Close(); return nil }, err
	}
	return nil, nil, fmt.Errorf("no store %q", at.Kind)
}

// claimsOf returns a Peer that makes pairs in sequence, whatever the number of callers, and measures their claims
// alone. It makes a hundredth of the records in a round, and 100 to 1000: so that neither store grows much.
func claimsOf(s retrysafe.Store, records int64) peers.Peer {
	result, most := peers.Result(), int(min(max(records/100, 100), 1000))
	return func(ctx context.Context, _ int, d time.Duration) (done peers.Done, err error) {
		var micros figure.Samples
		for began := time.Now(); time.Since(began) < d && len(micros) < most; {
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
