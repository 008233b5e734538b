package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// slowCommits has the server wait for 2 ms with each write of its log, as a cloud volume does.
var slowCommits = []string{
	"ALTER SYSTEM SET commit_delay = 2000", "ALTER SYSTEM SET commit_siblings = 0", "SELECT pg_reload_conf()",
}

// compareClaims compares requests whose work is a transaction that completes their key, as InTx runs it, with the same
// transaction alone: claims wait for the disk, or do not (Policy.AsyncClaim).
func compareClaims(ctx context.Context, r *run, s *pgServer, store pgPlace) error {
	for _, text := range slowCommits {
		if err := s.exec(ctx, text); err != nil {
			return err
		}
	}
	requests := 400
	if r.Quick {
		requests = 40
	}
	r.progress("requests whose claims wait for a disk that takes 2 ms to sync, and whose claims do not")
	got, err := call[results](ctx, r.here(), claimed{race: r.race(5, 3, 0), Place: store, Requests: requests})
	if err != nil {
		return err
	}
	r.add(ctx, figure.Ratio("a transaction alone ÷ a request with InTx, 1 caller, 2 ms", got[theirs].Rate, got[ours].Rate, "1/s").
		Note("a claim waits for the disk"))
	r.add(ctx, figure.Ratio("the same with AsyncClaim", got[theirs].Rate, got[async].Rate, "1/s").Want(figure.AtMost(1.2)))
	return nil
}

// async is the side whose claims do not wait for the disk.
const async = "async claim"

// claimed compares requests by a Guard with the transaction that is their work.
type claimed struct {
	race
	Place    pgPlace
	Requests int
}

func (in claimed) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	s, err := in.Place.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	answer := string(peers.Result().Body)
	each := func(do func(ctx context.Context, i int64) error) peers.Peer {
		return func(ctx context.Context, callers int, _ time.Duration) (peers.Done, error) {
			began := time.Now()
			err := forEach(ctx, callers, 0, int64(in.Requests), do)
			return peers.Done{Count: int64(in.Requests), PerSecond: float64(in.Requests) / time.Since(began).Seconds()}, err
		}
	}
	guarded := func(isAsync bool) peers.Peer {
		g := retrysafe.New(s, retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{
			OnAbandoned: retrysafe.RerunTx(), AsyncClaim: isAsync,
		}})
		return each(func(ctx context.Context, i int64) error {
			request := retrysafe.Request{Key: retrysafe.Key{Scope: peers.Scope, ID: fmt.Sprint(isAsync, time.Now().UnixNano(), i)}}
			_, err := retrysafe.Do(ctx, g, request, func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
				if err := retrysafe.SetResult(ctx, answer); err != nil {
					return "", err
				}
				return answer, s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, insertCharge, peers.Scope, 4200, answer)
					return err
				})
			})
			return err
		})
	}
	alone := each(func(ctx context.Context, _ int64) error { return transaction(ctx, s.pool, "", answer) })
	found, err := in.run(ctx, side{name: theirs, peer: alone, callers: 1}, side{name: ours, peer: guarded(false), callers: 1},
		side{name: async, peer: guarded(true), callers: 1})
	return found, errors.Join(err, expectCompleted(ctx, s.pool))
}
