package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Find returns the records that p selects, the newest first. It reads those that have the tag; without one, those that
// may have the ID; without either, those in the state, unless that is Succeeded, and those that no sweep has looked at
// yet; and otherwise, like List, every record of that age until it has found enough. Claims do not wait for it.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	p.ListParams = storekit.ListParams(p.ListParams)
	found := []retrysafe.Record{}
	err := s.snapshot(ctx, func(run runner, now instant) error {
		q, args := findQuery(p, now)
		return run.all(q, func(row []driver.Value) error {
			r, k, err := scanKept(row)
			if err == nil {
				found = append(found, r.View(k, now))
			}
			return err
		}, args...)
	})
	return found, err
}

// findQuery is the statement that finds what p selects with the best index, and its values. The id of a record is the
// time of its first claim, so that ages are ids too.
func findQuery(p retrysafe.FindParams, now instant) (query, []driver.Value) {
	var scope string
	if p.Scope != nil {
		scope = *p.Scope
	}
	before, from := p.Before, int64(0)
	if p.MinAge > 0 {
		before = min(before, now-storekit.Micros(p.MinAge)+1)
	}
	if p.MaxAge > 0 {
		from = now - int64(p.MaxAge/time.Microsecond)
	}
	args := []driver.Value{
		int64(p.Limit), before, int64(p.State), btoi(p.Scope != nil), blob(scope), now, from, blobOrNull(p.ScopePrefix),
	}
	switch {
	case p.Tag != "":
		return "find_by_tag", append(args, blob(p.Tag), blobOrNull(p.ID))
	case p.ID != "":
		hash := hashOf(p.ID)
		return "find_by_id", append(args, blob(p.ID), hash[:])
	case p.State != 0 && p.State != retrysafe.Succeeded:
		return "find_by_state", args
	}
	return "list", args
}

// blobOrNull is s as a value that is NULL if s is empty.
func blobOrNull(s string) driver.Value {
	if s == "" {
		return nil
	}
	return blob(s)
}

// keyHash is what retrysafe_hashes keeps of a client's key.
type keyHash [4]byte

func hashOf(id string) (h keyHash) {
	binary.BigEndian.PutUint32(h[:], crc32.ChecksumIEEE([]byte(id)))
	return h
}

// hashes is a row of retrysafe_hashes: the new records of one transaction.
type hashes struct {
	first, last int64
	all         []byte
}

func (h *hashes) add(id int64, hash keyHash) {
	if h.all == nil {
		h.first = id
	}
	h.last = id
	h.all = append(h.all, hash[:]...)
}

func (h *hashes) save(run runner) error {
	if h.all == nil {
		return nil
	}
	_, err := run.exec("insert_hashes", h.first, h.last, h.all)
	return err
}

// hashOld adds what retrysafe_hashes lacks: the records that a program has claimed which did not know that table.
func hashOld(ctx context.Context, conn *sql.Conn) error {
	for more := true; more; {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		more, err = hashSome(txRunner{tx, ctx})
		if err != nil {
			_ = tx.Rollback() // err says why
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// hashSome adds a row to retrysafe_hashes if there are records which need one.
func hashSome(run runner) (more bool, err error) {
	var h hashes
	err = run.all("unhashed", func(row []driver.Value) error {
		c := scanner{row: row}
		h.add(c.int(), hashOf(string(c.bytes())))
		return c.err
	}, int64(maxBatch))
	if err != nil {
		return false, err
	}
	return h.all != nil, h.save(run)
}
