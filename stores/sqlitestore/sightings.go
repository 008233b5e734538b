package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// maxSightings is how many sightings are added in one transaction, because claims wait for it.
const maxSightings = 250

// AddSightings adds counts to records; those of records that do not exist are left out. They share transactions, and
// their syncs, with claims. It returns [retrysafe.ErrStoreFull] if only the reserve of the disk is left, which is not
// for them.
func (s *Store) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	for some := range slices.Chunk(all, maxSightings) {
		if err := s.writer.write(ctx, func(t *writeTx) error { return t.addSightings(some) }); err != nil {
			return fmt.Errorf("add sightings: %w", err)
		}
	}
	return nil
}

func (t *writeTx) addSightings(all []retrysafe.KeySighting) error {
	if err := t.checkSpace(); err != nil {
		return err
	}
	for _, seen := range all {
		_, err := t.exec("add_sighting", seen.FirstFence, seen.Digest[:], int64(seen.Kind), seen.Count,
			t.now-storekit.Micros(seen.First), t.now-storekit.Micros(seen.Last), int64(seen.Code), t.now)
		if err != nil {
			return err
		}
	}
	return nil
}

// addSightings adds to v what the store keeps of it.
func addSightings(run runner, v *retrysafe.Record, now instant) error {
	return run.all("sightings", func(row []driver.Value) error {
		c := scanner{row: row}
		v.Sightings = append(v.Sightings, retrysafe.Sighting{
			Kind: retrysafe.SightingKind(c.int()), Count: c.int(),
			First: storekit.Duration(now - c.int()), Last: storekit.Duration(now - c.int()), Code: int(c.int()),
		})
		return c.err
	}, v.FirstFence)
}
