package sqlitestore

import (
	"context"
	"database/sql/driver"
	"maps"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// blockSize is how many records a block has. A search reads one row for each block, and the records of those that have
	// what it looks for.
	blockSize = 1000
	// reviewed is how many blocks are compared with their records at a time.
	reviewed = 10
)

// indexBlocks has Find find the records of a scope, or of a client's key, without reading all. It puts each record once
// into a block, after which the record's completion and its end change nothing here. Blocks are compared with their records
// again later, some of them in each pass, so that scopes which no record has any more are dropped.
func (s *Store) indexBlocks(ctx context.Context) error {
	began := time.Now()
	for full := true; full && time.Since(began) < stateTime; {
		var err error
		if full, err = s.addToBlock(ctx, blockSize); err != nil {
			return err
		}
	}
	// The oldest blocks are those whose records go, all but the first block itself.
	for dropped := reviewed - 1; dropped == reviewed-1 && time.Since(began) < stateTime; {
		var err error
		if dropped, _, err = s.review(ctx, 0); err != nil {
			return err
		}
	}
	return s.reviewNext(ctx)
}

// block is what a sweep adds to a block.
type block struct {
	first, last, records int64
	scopes               map[string]bool
	hashes               [16][]byte
}

func (b *block) add(row []driver.Value) error {
	c := scanner{row: row}
	id, scope, hash := c.int(), string(c.bytes()), hashOf(string(c.bytes()))
	if b.first < 0 {
		b.first = id
	}
	b.last = id
	b.records++
	b.scopes[scope] = true
	b.hashes[hash.bits()] = append(b.hashes[hash.bits()], hash[:]...)
	return c.err
}

func (b *block) save(run runner) error {
	for _, scope := range slices.Sorted(maps.Keys(b.scopes)) {
		if _, err := run.exec("insert_scope", b.first, blob(scope)); err != nil {
			return err
		}
	}
	for bits, all := range b.hashes {
		if len(all) == 0 {
			continue
		}
		if _, err := run.exec("add_block_hashes", int64(bits), b.first, all); err != nil {
			return err
		}
	}
	if _, err := run.exec("add_to_block", b.first, b.records); err != nil {
		return err
	}
	_, err := run.exec("set_meta", "blocks", b.last+1)
	return err
}

// addToBlock puts the next records into the last block, or into a new one if that has size records. It reports whether the
// block is full.
func (s *Store) addToBlock(ctx context.Context, size int64) (full bool, err error) {
	began, b := time.Now(), block{scopes: map[string]bool{}}
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("last_block")
		if err != nil {
			return err
		}
		c := scanner{row: row}
		b.first = c.int()
		room, from := size-c.int(), c.int()
		if room <= 0 {
			b.first, room = -1, size
		}
		if err := run.all("next_records", b.add, from, room); err != nil {
			return err
		}
		full = b.records == room
		return c.err
	})
	if err != nil || b.records == 0 {
		return false, err
	}
	err = s.writer.write(ctx, func(t *writeTx) error { return b.save(t) })
	storekit.Rest(ctx, time.Since(began))
	return full, err
}

// reviewNext reviews the blocks after those of the last pass.
func (s *Store) reviewNext(ctx context.Context) error {
	var from int64
	err := s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("meta", "review")
		if err != nil {
			return err
		}
		c := scanner{row: row}
		from = c.int()
		return c.err
	})
	if err != nil {
		return err
	}
	_, next, err := s.review(ctx, from)
	if err != nil || next == from {
		return err
	}
	return s.writer.write(ctx, func(t *writeTx) error {
		_, err := t.exec("set_meta", "review", next)
		return err
	})
}

// review drops the scopes that no record of the next blocks has any more, and blocks without records. It returns how many
// of the blocks had none, and where the next review begins.
func (s *Store) review(ctx context.Context, from int64) (dropped int, next int64, err error) {
	var stale [][2]int64
	looked := 0
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		return run.all("next_blocks", func(row []driver.Value) error {
			c := scanner{row: row}
			first, below, gone := c.int(), c.int(), c.int()
			looked++
			if next = first + 1; gone > 0 {
				stale = append(stale, [2]int64{first, below})
			}
			return c.err
		}, from, int64(reviewed))
	})
	if looked < reviewed {
		next = 0
	}
	for _, b := range stale {
		if err != nil {
			break
		}
		var n int64
		err = s.writer.write(ctx, func(t *writeTx) error {
			if _, err := t.exec("drop_scopes", b[0], b[1]); err != nil {
				return err
			}
			if _, err := t.exec("drop_block_hashes", b[0]); err != nil {
				return err
			}
			n, err = t.exec("drop_block", b[0])
			return err
		})
		dropped += int(n)
	}
	return dropped, next, err
}
