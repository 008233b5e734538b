package pgstore

import (
	"context"
	"time"
)

const (
	// blockSize is how many records a block has. A search reads one row for each block, and the records of those that have
	// the scope: a page of 100 records of a rare scope reads a hundred blocks.
	blockSize = 1000
	// reviewed is how many blocks one transaction compares with their records.
	reviewed = 10
)

// indexScopes has searches find the records of a scope, or of scopes that begin alike, without reading all. It puts each
// record once into a block, after which the record's completion and its end change nothing here. Blocks are compared with
// their records again later, some of them in each pass, so that what no record has any more is dropped.
func (s *Store) indexScopes(ctx context.Context) error {
	began := time.Now()
	var looked int
	for more := true; more; more = looked >= statePiece && time.Since(began) < s.sweeper.stateTime {
		if err := s.statesPiece(ctx, s.sql.indexScopes, []any{statePiece, blockSize}, &looked); err != nil {
			return err
		}
	}
	// The oldest blocks are those whose records go, all but the first block itself.
	var dropped int
	for more := true; more; more = dropped == reviewed-1 && time.Since(began) < s.sweeper.stateTime {
		if err := s.statesPiece(ctx, s.sql.reviewBlocks, []any{reviewed, false}, &dropped); err != nil {
			return err
		}
	}
	return s.statesPiece(ctx, s.sql.reviewBlocks, []any{reviewed, true}, &dropped)
}
