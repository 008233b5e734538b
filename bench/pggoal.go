package main

import (
	"context"
	"errors"
)

// Goal 9: pgstore on a real PostgreSQL, next to hand-written statements and DBOS.

func pgGoal(ctx context.Context, r *run) (err error) {
	r.progress("start PostgreSQL")
	s, err := startPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	parts := []func(context.Context, *run, *pgServer) error{pgPairs, pgSweep, pgWake, pgDBOS}
	if r.profiled != 0 {
		parts = parts[:1]
	}
	for _, part := range parts {
		if err := part(ctx, r, s); err != nil {
			return err
		}
	}
	return nil
}
