package main

import (
	"context"
	"fmt"
	"sync"
)

// fillClaims fills a schema with completed claims as they are after a day: with random keys, spread evenly over a
// day, the youngest one minAge microseconds old, and kept for a day.
const fillClaims = `INSERT INTO %s.claims (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
	keep_audit,
	sweep_at, attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id)
SELECT gen_random_uuid(), gen_random_uuid(), t.at, t.at, t.at, t.at + 60000, day, day, day,
	(t.at + 60000 + day) / 60000000, 1, 0, 201, 3, false, false, false, %s, %s, lpad(i::text, 32, '0')::bytea
FROM (SELECT 86400000000, (date_part('epoch', now()) * 1e6)::bigint) c (day, now),
	generate_series(%d::bigint, %d::bigint) i, LATERAL (SELECT c.now - %d - c.day + i * (c.day / %d)) t (at)`

// fill inserts records and settles.
func (s *pgServer) fill(ctx context.Context, schema string, rows, minAge int64) error {
	if err := s.insert(ctx, schema, rows, minAge); err != nil {
		return err
	}
	return s.settle(ctx, schema)
}

// settle runs VACUUM and CHECKPOINT, so that they do not run during a measurement.
func (s *pgServer) settle(ctx context.Context, schema string) error {
	return s.exec(ctx, "VACUUM (ANALYZE) "+schema+".claims", "CHECKPOINT")
}

func (s *pgServer) insert(ctx context.Context, schema string, rows, minAge int64) error {
	const parts = 2
	var failed firstError
	var wg sync.WaitGroup
	for i := range int64(parts) {
		wg.Go(func() {
			err := s.exec(ctx, fmt.Sprintf(fillClaims, schema, byteaLiteral([]byte(pairFingerprint)),
				byteaLiteral([]byte(pairScope)),
				i*rows/parts+1, (i+1)*rows/parts, minAge, rows))
			if err != nil {
				failed.set(err)
			}
		})
	}
	wg.Wait()
	return failed.err
}
