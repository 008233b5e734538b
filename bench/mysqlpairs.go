package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
)

// mysqlPairsAsked holds the parameters of the role. With no callers only the plain statements are measured, with no
// connections only the store.
type mysqlPairsAsked struct {
	DSN                  string
	Server               int
	Callers, Connections int
	Rounds               int
	Round                time.Duration
}

type mysqlPairsFound struct{ Ours, Plain mysqlSide }

// mysqlSide holds, for each round, pairs per second, and the server's CPU time in microseconds and bytes of log per
// pair.
type mysqlSide struct {
	Rates, CPU, Log []float64
	Pairs           int64
}

// mysqlPairsRole measures both sides in turn. The first round is a warm-up.
func mysqlPairsRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in mysqlPairsAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	db, err := sql.Open("mysql", in.DSN)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	plain, err := openMySQLPlain(ctx, in.DSN, max(in.Connections, 1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plain.db.Close()) }()
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	result := pairResult()
	var found mysqlPairsFound
	for i := range 1 + in.Rounds {
		if i == 1 {
			found = mysqlPairsFound{}
		}
		for _, side := range []struct {
			*mysqlSide
			goroutines int
			pair       func() error
		}{
			{&found.Ours, in.Callers, func() error { return storePair(ctx, store, result, retrysafe.Retention{}) }},
			{&found.Plain, in.Connections, func() error { return plain.pair(ctx) }},
		} {
			if side.goroutines == 0 {
				continue
			}
			if err := side.take(ctx, in, db, side.goroutines, side.pair); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// take runs one round and reads the server's counters before and after it.
func (s *mysqlSide) take(ctx context.Context, in mysqlPairsAsked, db *sql.DB, goroutines int, pair func() error) error {
	before, err := readMySQL(ctx, db, in.Server)
	if err != nil {
		return err
	}
	n, took, err := rate(goroutines, in.Round, pair)
	if err != nil {
		return err
	}
	after, err := readMySQL(ctx, db, in.Server)
	pairs := float64(max(n, 1))
	s.Rates = append(s.Rates, perSecond(n, took))
	s.CPU = append(s.CPU, float64((after.cpu-before.cpu).Microseconds())/pairs)
	s.Log = append(s.Log, float64(after.log-before.log)/pairs)
	s.Pairs += n
	return err
}
