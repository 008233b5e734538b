package plain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/bench/peers"
)

// MySQLTable has the columns of mysqlstore's claims, and the result. No second index.
const MySQLTable = `CREATE TABLE %s.plain (
	k BINARY(16) NOT NULL PRIMARY KEY, owner BINARY(16) NOT NULL, fence BIGINT NOT NULL, first_fence BIGINT NOT NULL,
	claimed_at BIGINT NOT NULL, ends_at BIGINT NOT NULL, keep_replay BIGINT NOT NULL, keep_key BIGINT NOT NULL,
	keep_audit BIGINT NOT NULL, sweep_at INT NOT NULL, attempt INT NOT NULL, steps INT NOT NULL, code INT NOT NULL,
	state TINYINT NOT NULL, omitted TINYINT NOT NULL, fingerprint VARBINARY(1024) NOT NULL,
	scope VARBINARY(1024) NOT NULL, id VARBINARY(1024) NOT NULL, meta LONGBLOB, body LONGBLOB) ENGINE = InnoDB`

const (
	mysqlNow   = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	mysqlClaim = `INSERT INTO plain (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
	keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id)
VALUES (?, ?, ` + mysqlNow + `, ` + mysqlNow + `, ` + mysqlNow + `, ` + mysqlNow + ` + ?, 86400000000, 86400000000,
	86400000000, ` + mysqlNow + ` DIV 60000000, 1, 0, 0, 1, 0, ?, ?, ?)`
	mysqlComplete = `UPDATE plain SET state = 3, code = ?, ends_at = ` + mysqlNow + `, meta = ?, body = ? WHERE k = ?`
)

// MySQL sends the statements, prepared, each a transaction of its own.
type MySQL struct {
	db              *sql.DB
	claim, complete *sql.Stmt
}

// OpenMySQL returns a MySQL with so many connections.
func OpenMySQL(ctx context.Context, dsn string, connections int) (*MySQL, error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	m := &MySQL{db: db}
	if m.claim, err = db.PrepareContext(ctx, mysqlClaim); err == nil {
		m.complete, err = db.PrepareContext(ctx, mysqlComplete)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return m, nil
}

// Close closes the connections.
func (m *MySQL) Close() error { return m.db.Close() }

// Pairs returns a peer that sends both statements for each pair.
func (m *MySQL) Pairs() peers.Peer {
	r := peers.Result()
	return peers.Each(func(ctx context.Context) error {
		k, owner, id := newKey()
		claimed, err := m.claim.ExecContext(ctx, k[:], owner[:], peers.Lease.Microseconds(), []byte(peers.Fingerprint),
			[]byte(peers.Scope), id)
		if err != nil {
			return fmt.Errorf("plain claim: %w", err)
		}
		completed, err := m.complete.ExecContext(ctx, r.Code, r.Meta, r.Body, k[:])
		if err != nil {
			return fmt.Errorf("plain completion: %w", err)
		}
		a, err := claimed.RowsAffected()
		b, err2 := completed.RowsAffected()
		if err = errors.Join(err, err2); err == nil && a+b != 2 {
			err = errNotFresh
		}
		return err
	})
}
