package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// PendingAges returns ages of pending records since their first claim: one that 95 and one that 99 of 100 records do not
// exceed, and that of the oldest. Without pending records they are 0; expired ones do not count.
//
// It reads the table of claims once from end to end, and no answers, as Stats does: a second for some millions. The server
// sorts the ages of the pending records, 8 bytes each, in work_mem or beyond that on disk.
func (s *Store) PendingAges(ctx context.Context) (p95, p99, oldest time.Duration, err error) {
	var ages [3]int64
	if err := s.pool.QueryRow(ctx, s.sql.pendingAges).Scan(&ages[0], &ages[1], &ages[2]); err != nil {
		return 0, 0, 0, fmt.Errorf("ages of pending records: %w", explain(err))
	}
	return storekit.Duration(ages[0]), storekit.Duration(ages[1]), storekit.Duration(ages[2]), nil
}
