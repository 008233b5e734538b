package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The two plain statements sent by pgx from this process: the remaining difference to pgbench is caused by the
// client, not by the store.

const (
	claimByHand = `INSERT INTO plain (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit,
		sweep_at,
	attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id)
SELECT $1, $2, now, now, now, now + $3::bigint, $4, $4, $4, now / 60000000, 1, 0, 0, 1, false, false, false, $5, $6, $7
FROM (SELECT (date_part('epoch', now()) * 1e6)::bigint) t (now) ON CONFLICT DO NOTHING`
	completeByHand = `UPDATE plain SET state = 3, code = $2, ends_at = (date_part('epoch', now()) * 1e6)::bigint,
		meta = $3, body = $4
WHERE k = $1`
)

// pairByHand makes a pair on the plain table.
func pairByHand(ctx context.Context, pool *pgxpool.Pool) error {
	var k, owner [16]byte
	_, _ = rand.Read(k[:])
	_, _ = rand.Read(owner[:])
	r := pairResult()
	claimed, err := pool.Exec(ctx, claimByHand, k, owner, (30 * time.Second).Microseconds(),
		(24 * time.Hour).Microseconds(),
		[]byte(pairFingerprint), []byte(pairScope), []byte(hex.EncodeToString(k[:])))
	if err != nil {
		return fmt.Errorf("claim by hand: %w", err)
	}
	completed, err := pool.Exec(ctx, completeByHand, k, r.Code, r.Meta, r.Body)
	if err == nil && claimed.RowsAffected()+completed.RowsAffected() != 2 {
		err = errors.New("a fresh key already existed")
	}
	return err
}
