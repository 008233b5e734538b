package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goal 4: a store with a million records that is killed repeatedly answers soon, and uses little memory.

func reopenGoal(ctx context.Context, r *run) error {
	in := bigStore{Path: filepath.Join(r.dir, "reopen.db"), Records: 1_000_000}
	if r.Quick {
		in.Records = 50_000
	}
	records := figure.Short(float64(in.Records)) + " records"
	r.progress("fill %s", records)
	filled, err := untilKilled(ctx, place{disk: disk.AsIs()}, fill{in})
	if err != nil {
		return err
	}
	r.addHere(ctx, figure.New("RSS, "+records+", after filling", "MiB", filled.Resident).Want(figure.AtMost(150)))
	for _, d := range r.disks() {
		var opened, resident figure.Samples
		for range r.rounds(5, 3) {
			got, err := untilKilled(ctx, place{disk: d, profile: r.profile()}, reopen{in})
			if err != nil {
				return err
			}
			opened, resident = append(opened, got.Open), append(resident, got.Resident)
		}
		r.add(ctx, figure.New("sqlitestore: SIGKILL to first replay", "ms", opened...).On(d.Name).
			Note("aim: at most 100, no target, since it depends on the CPU").Note("%s", records).
			Note("from opening the file on").Note("the file is in the system's page cache"))
		r.add(ctx, figure.New("RSS, "+records+", reopened and busy", "MiB", resident...).On(d.Name).
			Want(figure.AtMost(150)))
	}
	return nil
}

// untilKilled runs a role until it answers, and kills it.
func untilKilled(ctx context.Context, at place, what role) (found reopened, err error) {
	p, err := startRole(ctx, at, what)
	if err != nil {
		return found, err
	}
	if err := p.answer(&found); err != nil {
		return found, err
	}
	if at.profile != "" {
		return found, p.end() // a killed process writes no profile
	}
	err = syscall.Kill(found.PID, syscall.SIGKILL)
	_ = p.end() // an error is expected, because it was killed
	return found, err
}

// bigStore is a file with so many records.
type bigStore struct {
	Path    string
	Records int64
}

// reopened has the time from opening the file to the first replay in milliseconds, and the process's memory in MiB.
type reopened struct {
	PID            int
	Open, Resident float64
}

// fill fills the store and waits until it is killed.
type fill struct{ bigStore }

func (in fill) play(stop context.Context, ready func(any) error) (any, error) {
	s, err := sqlitestore.Open(in.Path, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	if err := fillStore(stop, s, 0, in.Records); err != nil {
		return nil, err
	}
	return nil, errors.Join(in.untilKilled(stop, ready, reopened{}), s.Close())
}

// reopen opens the store, does some work to fill the write-ahead log, and waits until it is killed.
type reopen struct{ bigStore }

func (in reopen) play(stop context.Context, ready func(any) error) (any, error) {
	began := time.Now()
	s, err := sqlitestore.Open(in.Path, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	if err := replay(stop, s, in.Records); err != nil {
		return nil, err
	}
	found := reopened{Open: millis(time.Since(began))}
	result := peers.Result()
	busy := peers.Each(func(ctx context.Context) error {
		if err := replay(ctx, s, in.Records); err != nil {
			return err
		}
		return storePair(ctx, s, result)
	})
	if _, err := busy(stop, sweepCallers, time.Second); err != nil {
		return nil, err
	}
	return nil, errors.Join(in.untilKilled(stop, ready, found), s.Close())
}

func (bigStore) untilKilled(stop context.Context, ready func(any) error, found reopened) error {
	resident, err := residentBytes(os.Getpid())
	if err != nil {
		return err
	}
	found.PID, found.Resident = os.Getpid(), resident/mib
	if err := ready(found); err != nil {
		return err
	}
	<-stop.Done()
	return nil
}
