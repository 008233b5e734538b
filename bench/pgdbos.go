package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/bench/peers/dbos"
)

// Goal 9, last part: pgstore next to DBOS, whose workflows run once for each ID, on one server.

// dbosCallers is the number of concurrent callers on each side.
const dbosCallers = 64

func pgDBOSPart(ctx context.Context, r *run, s *pgServer) error {
	r.progress("install DBOS")
	dir := filepath.Join(r.dir, "dbos")
	if err := dbos.Install(ctx, dir); err != nil {
		return err
	}
	store, err := s.store(ctx, "besidedbos")
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "CREATE DATABASE dbos"); err != nil {
		return err
	}
	r.progress("pgstore and DBOS, %s", callersText(dbosCallers))
	got, err := call[pgDBOSFound](ctx, r.here(), pgDBOS{
		race: r.race(5, 3, 2*time.Second), Store: store, Dir: dir, URL: s.URL("dbos"),
	})
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what   string
		target float64
		got    results
	}{{"fresh", 3.5, got.Fresh}, {"replay", 25, got.Replay}} {
		r.addHere(ctx, c.got.rates("pgstore ÷ DBOS, 64 callers: "+c.what, "a second").Want(figure.AtLeast(c.target)).
			Note("DBOS, in one Node process, also journals the workflow's step and resumes it after a crash, which a "+
				"store does not"))
	}
	return nil
}

type pgDBOS struct {
	race
	Store    pgPlace
	Dir, URL string
}

type pgDBOSFound struct{ Fresh, Replay results }

func (in pgDBOS) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	store, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	peer, err := dbos.Start(in.Dir, in.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.Stop()) }()
	if err := fillStore(ctx, store, 0, replayed); err != nil {
		return nil, err
	}
	var found pgDBOSFound
	if found.Fresh, err = in.run(ctx, side{name: ours, peer: pairsOf(store), callers: dbosCallers},
		side{name: theirs, peer: peer.Fresh, callers: dbosCallers}); err != nil {
		return nil, err
	}
	var next atomic.Int64
	replays := peers.Each(func(ctx context.Context) error { return replayOf(ctx, store, next.Add(1)%replayed) })
	found.Replay, err = in.run(ctx, side{name: ours, peer: replays, callers: dbosCallers},
		side{name: theirs, peer: peer.Replays(replayed), callers: dbosCallers})
	return found, err
}
