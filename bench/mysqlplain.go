package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// The comparison for mysqlstore: the two usual statements on one plain table.

// mysqlPlainTable has the columns of mysqlstore's claims, and the result. No second index.
const mysqlPlainTable = `CREATE TABLE %s.plain (
	k BINARY(16) NOT NULL PRIMARY KEY, owner BINARY(16) NOT NULL, fence BIGINT NOT NULL, first_fence BIGINT NOT NULL,
	claimed_at BIGINT NOT NULL, ends_at BIGINT NOT NULL, keep_replay BIGINT NOT NULL, keep_key BIGINT NOT NULL,
	keep_audit BIGINT NOT NULL, sweep_at INT NOT NULL, attempt INT NOT NULL, steps INT NOT NULL, code INT NOT NULL,
	state TINYINT NOT NULL, omitted TINYINT NOT NULL, fingerprint VARBINARY(1024) NOT NULL,
	scope VARBINARY(1024) NOT NULL, id VARBINARY(1024) NOT NULL, meta LONGBLOB, body LONGBLOB) ENGINE = InnoDB`

const (
	mysqlNow        = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	mysqlPlainClaim = `INSERT INTO plain (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
	keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id)
VALUES (?, ?, ` + mysqlNow + `, ` + mysqlNow + `, ` + mysqlNow + `, ` + mysqlNow + ` + ?, 86400000000, 86400000000,
	86400000000, ` + mysqlNow + ` DIV 60000000, 1, 0, 0, 1, 0, ?, ?, ?)`
	mysqlPlainDone = `UPDATE plain SET state = 3, code = ?, ends_at = ` + mysqlNow + `, meta = ?, body = ? WHERE k = ?`
)

// mysqlPlain sends the statements, prepared, each a transaction of its own.
type mysqlPlain struct {
	db          *sql.DB
	claim, done *sql.Stmt
}

func openMySQLPlain(ctx context.Context, dsn string, connections int) (*mysqlPlain, error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	p := &mysqlPlain{db: db}
	if p.claim, err = db.PrepareContext(ctx, mysqlPlainClaim); err == nil {
		p.done, err = db.PrepareContext(ctx, mysqlPlainDone)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return p, nil
}

// pair makes a pair on the plain table.
func (p *mysqlPlain) pair(ctx context.Context) error {
	var k, owner [16]byte
	_, _ = rand.Read(k[:])
	_, _ = rand.Read(owner[:])
	r := pairResult()
	claimed, err := p.claim.ExecContext(ctx, k[:], owner[:], (30 * time.Second).Microseconds(),
		[]byte(pairFingerprint), []byte(pairScope), []byte(hex.EncodeToString(k[:])))
	if err != nil {
		return fmt.Errorf("plain claim: %w", err)
	}
	done, err := p.done.ExecContext(ctx, r.Code, r.Meta, r.Body, k[:])
	if err != nil {
		return fmt.Errorf("plain completion: %w", err)
	}
	a, err := claimed.RowsAffected()
	b, err2 := done.RowsAffected()
	if a+b != 2 {
		return errors.Join(err, err2, errors.New("a fresh key already existed"))
	}
	return errors.Join(err, err2)
}
