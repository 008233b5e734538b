package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goal 4: a store with a million records that is killed repeatedly answers soon, and uses little memory.

func reopenGoal(ctx context.Context, r *run) error {
	in := reopenAsked{Path: filepath.Join(r.dir, "reopen.db"), Records: 1_000_000}
	if r.quick {
		in.Records = 50_000
	}
	r.progress("fill %s records", figure.Short(float64(in.Records)))
	filled, err := untilKilled(ctx, disk.AsIs(), "", "fill", in)
	if err != nil {
		return err
	}
	r.add(ctx, memory("after filling", in, disk.AsIs(), []float64{filled.Resident}))
	for _, d := range r.disks() {
		var opened, resident []float64
		for range r.rounds(5, 3) {
			got, err := untilKilled(ctx, d, r.profile(4), "reopen", in)
			if err != nil {
				return err
			}
			opened, resident = append(opened, got.Open), append(resident, got.Resident)
		}
		r.add(ctx, figure.Figure{
			Goal: 4, Disk: d.Name, Unit: "ms", What: "sqlitestore: SIGKILL to first replay",
			Samples: opened,
			Aside: fmt.Sprintf("aim: at most 100, no target, since it depends on the CPU; %s records; from opening "+
				"the file on; the file is in the system's page cache",
				figure.Short(float64(in.Records))),
		})
		r.add(ctx, memory("reopened and busy", in, d, resident))
	}
	return nil
}

func memory(when string, in reopenAsked, d disk.Disk, samples []float64) figure.Figure {
	return figure.Figure{
		Goal: 4, Disk: d.Name, Unit: "MiB", What: fmt.Sprintf("RSS, %s records, %s", figure.Short(float64(in.Records)), when),
		Samples: samples, Target: figure.AtMost(150),
	}
}

// untilKilled runs a role until it answers, and kills it.
func untilKilled(ctx context.Context, d disk.Disk, profile, name string, in reopenAsked) (reopenFound, error) {
	var found reopenFound
	p, err := startRole(ctx, d, "", profile, name, in)
	if err != nil {
		return found, err
	}
	if err := p.answer(&found); err != nil {
		return found, err
	}
	if profile != "" {
		return found, p.end() // a killed process writes no profile
	}
	err = syscall.Kill(found.PID, syscall.SIGKILL)
	_ = p.end() // an error is expected, because it was killed
	return found, err
}

type reopenAsked struct {
	Path    string
	Records int64
}

type reopenFound struct {
	PID int
	// Open is the time from opening the file to the first replay, in milliseconds.
	Open float64
	// Resident is the process's memory in MiB.
	Resident float64
}

// fillRole fills the store and waits until it is killed.
func fillRole(stop context.Context, text json.RawMessage, ready func(any) error) (any, error) {
	return openFor(stop, text, ready, func(s *sqlitestore.Store, in reopenAsked) error {
		keep := func() retrysafe.Retention { return retrysafe.Retention{} }
		return fill(stop, s, 0, in.Records, keep)
	})
}

// reopenRole opens the store, does some work to fill the write-ahead log, and waits until it is killed.
func reopenRole(stop context.Context, text json.RawMessage, ready func(any) error) (any, error) {
	return openFor(stop, text, ready, func(s *sqlitestore.Store, in reopenAsked) error {
		result := pairResult()
		_, _, err := rate(sweepCallers, time.Second, func() error {
			if err := replay(stop, s, in.Records); err != nil {
				return err
			}
			return storePair(stop, s, result, retrysafe.Retention{})
		})
		return err
	})
}

func openFor(stop context.Context, text json.RawMessage, ready func(any) error,
	work func(*sqlitestore.Store, reopenAsked) error,
) (any, error) {
	var in reopenAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	_, statErr := os.Stat(in.Path)
	found := reopenFound{PID: os.Getpid()}
	began := time.Now()
	s, err := sqlitestore.Open(in.Path, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	if statErr == nil {
		if err := replay(stop, s, in.Records); err != nil {
			return nil, err
		}
	}
	found.Open = millis(time.Since(began).Nanoseconds())
	if err := work(s, in); err != nil {
		return nil, err
	}
	resident, err := residentBytes(os.Getpid())
	if err != nil {
		return nil, err
	}
	found.Resident = resident / mib
	if err := ready(found); err != nil {
		return nil, err
	}
	<-stop.Done()
	return nil, s.Close()
}
