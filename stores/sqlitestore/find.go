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

// Find returns the records that p selects, the newest first. It uses an index for a tag, or else for an ID, or else for a
// state other than Succeeded, or else for a scope or how it begins, and for both ages. A search by anything else reads, like
// List, every record from the newest on until it has found enough.
//
// Sweeps keep the indexes of states and scopes, and that of IDs but for the newest records. A search by a state or a scope
// reads all records that no sweep has looked at yet. Claims do not wait for it.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	p.ListParams = storekit.ListParams(p.ListParams)
	found := []retrysafe.Record{}
	err := s.snapshot(ctx, func(run runner, now instant) error {
		for _, v := range searches(p, now) {
			if err := v.between(run, p.Limit-len(found)); err != nil {
				return err
			}
			err := run.all(v.query, func(row []driver.Value) error {
				r, k, err := scanKept(row)
				if err == nil {
					found = append(found, r.View(k, now))
				}
				return err
			}, v.args...)
			if err != nil || len(found) >= p.Limit {
				return err
			}
		}
		return nil
	})
	return found, err
}

// search is a statement that finds records with an index, and its values: those of list.sql, and more.
type search struct {
	query query
	part  part
	args  []driver.Value
}

// part is which records a search is about.
type part int

const (
	allRecords part = iota
	newRecords      // those that are in no block yet
	inBlocks
)

// Where values of list.sql are.
const (
	limitArg, beforeArg, fromArg = 0, 1, 6
)

// between sets how many records to find, and where the search ends or begins.
func (v *search) between(run runner, limit int) error {
	v.args[limitArg] = int64(limit)
	if v.part == allRecords {
		return nil
	}
	row, err := run.first("meta", "blocks")
	if err != nil {
		return err
	}
	c := scanner{row: row}
	switch below := c.int(); v.part {
	case newRecords:
		v.args[fromArg] = max(v.args[fromArg].(int64), below)
	case inBlocks:
		v.args[beforeArg] = min(v.args[beforeArg].(int64), below)
	}
	return c.err
}

// searches are the statements that find what p selects with the best index, those of the newest records first. The id of a
// record is the time of its first claim, so that ages are ids too.
func searches(p retrysafe.FindParams, now instant) []search {
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
	args := func(more ...driver.Value) []driver.Value {
		return append([]driver.Value{
			int64(p.Limit), before, int64(p.State), btoi(p.Scope != nil), blob(scope), now, from, blobOrNull(p.ScopePrefix),
		}, more...)
	}
	switch {
	case p.Tag != "":
		return []search{{"find_by_tag", allRecords, args(blob(p.Tag), blobOrNull(p.ID))}}
	case p.ID != "":
		id, hash := blob(p.ID), hashOf(p.ID)
		return []search{
			{"find_by_id", newRecords, args(id, hash[:])}, {"find_by_hash", inBlocks, args(id, hash[:], int64(hash.bits()))},
		}
	case p.State != 0 && p.State != retrysafe.Succeeded:
		return []search{{"find_by_state", allRecords, args()}}
	case p.Scope != nil || p.ScopePrefix != "":
		return []search{{"list", newRecords, args()}, {"find_by_scope", inBlocks, args()}}
	}
	return []search{{"list", allRecords, args()}}
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

// bits are those by which retrysafe_block_hashes divides hashes.
func (h keyHash) bits() int { return int(h[3] & 15) }

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
