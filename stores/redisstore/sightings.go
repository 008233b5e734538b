package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// seenKey is what a record's key has before its digest in the name of the hash that holds the sightings of the key's
// records. The braces keep it in the slot of the record.
func (s *Store) seenKey(key string) string {
	return s.options.Prefix + indexMark + key[len(s.options.Prefix):]
}

// AddSightings adds counts to records, with one script for each key, all of which are sent at once. Those of records
// that do not exist are left out. If some of them fail, the others are added.
//
// Redis deletes the sightings of a key a day after it would delete the record as it is now. If an attempt keeps its
// lease, or completes with a Retention, that is longer by more, what was counted before is lost before the record is.
func (s *Store) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b retrysafe.KeySighting) int { return compareDigests(a.Digest, b.Digest) })
	var calls []*call
	for i, seen := range sorted {
		if i == 0 || seen.Digest != sorted[i-1].Digest {
			calls = append(calls, &call{what: s.scripts.see, key: s.key(seen.Digest)})
		}
		c := calls[len(calls)-1]
		c.args = append(c.args, packFence(seen.FirstFence), string([]byte{byte(seen.Kind)}),
			strconv.FormatInt(seen.Count, 10), micros(storekit.Micros(seen.First)), micros(storekit.Micros(seen.Last)),
			strconv.Itoa(seen.Code))
	}
	err := s.sendAll(ctx, calls, func(int, rueidis.RedisMessage) error { return nil })
	if err != nil {
		return fmt.Errorf("add sightings: %w", explain(err))
	}
	return nil
}

// readSightings reads the sightings of a key's records, by the first fences of these.
func readSightings(hash rueidis.RedisMessage, now storekit.Instant) (map[int64][]retrysafe.Sighting, error) {
	fields, err := hash.AsStrMap()
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	seen := map[int64][]retrysafe.Sighting{}
	for field, value := range fields {
		f, v := []byte(field), []byte(value)
		if len(f) != fenceSize+1 || len(v) != 28 {
			return nil, errFormat
		}
		ago := func(b []byte) int64 { return max(now-int64(order.Uint64(b)), 0) }
		first := int64(order.Uint64(f))
		seen[first] = append(seen[first], retrysafe.Sighting{
			Kind: retrysafe.SightingKind(f[fenceSize]), Count: int64(order.Uint64(v)),
			First: storekit.Duration(ago(v[8:])), Last: storekit.Duration(ago(v[16:])), Code: int(int32(order.Uint32(v[24:]))),
		})
	}
	for _, all := range seen {
		slices.SortFunc(all, func(a, b retrysafe.Sighting) int { return cmp.Compare(a.Kind, b.Kind) })
	}
	return seen, nil
}
