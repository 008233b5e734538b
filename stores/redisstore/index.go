package redisstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// The index is a few sorted sets beside the records, the buckets, whose names are in another one. A member of a bucket
// is what a record is found by, its first fence and the digest of its key, and so the members are in the order in which
// people search. A bucket expires with the last of its records: no entry has to be deleted for that. See lua/index.lua.

// indexMark follows the prefix in the names of all keys that are no records. No prefix may have it, and so no other
// store has such keys.
const indexMark = "+"

// shards is how many indexes a Cluster has. A record is in that of its digest, so that no server has to index them all.
const shards = 16

// byArrival is what every record is found by.
const byArrival = "a"

const hashSize = 8

// hash is the part of a member that stands for an ID or a tag. Two of them may have the same: what is found is
// compared.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:hashSize])
}

func byID(id string) string   { return "i" + hash(id) }
func byTag(tag string) string { return "t" + hash(tag) }

// index returns the name of an index.
func (s *Store) index(shard int) string {
	return fmt.Sprintf("%s%s{%x}", s.options.Prefix, indexMark, shard)
}

// indexes returns the names of all indexes.
func (s *Store) indexes() []string {
	if s.inScript != "" {
		return []string{s.inScript}
	}
	var all []string
	for i := range shards {
		all = append(all, s.index(i))
	}
	return all
}

// class is a number n so that 2^n half-hours are at least as long as a record is kept whose attempt extends no lease.
func class(lease int64, keep storekit.Keep) int {
	const halfHour = int64(30 * time.Minute / time.Microsecond)
	kept := min(lease, lastInstant) + min(max(keep.Key, keep.Audit), lastInstant)
	n := 1
	for halfHour<<n < kept {
		n++
	}
	return n
}

// kinds are what a record is found by beside its arrival.
func kinds(id string, tags retrysafe.Tags) []string {
	all := []string{byID(id)}
	for tag := range tags.Lines() {
		all = append(all, byTag(tag))
	}
	return all
}

// indexing is how many claims of a Cluster may be on the way to the index at a time. Those beyond it are not indexed.
const indexing = 1000

// addToIndex adds a record of a Cluster to the index, which is on another server. Neither does the claim wait for it,
// nor does it fail: a record that is not added is found by Inspect, List and Walk nevertheless. The call ends with
// Options.Timeout.
func (s *Store) addToIndex(c *retrysafe.Claim, n int) {
	if s.indexing == nil || c.Verdict != retrysafe.Acquired {
		return
	}
	select {
	case s.indexing <- struct{}{}:
	default:
		return
	}
	r := &c.Record
	d := r.Key.Digest()
	at := s.index(int(d[0]) % shards)
	n++ // no later call moves the end of the bucket
	width := 225_000_000 * int64(math.Exp2(float64(n)))
	add := &call{
		what: s.scripts.add, key: at, more: []string{fmt.Sprintf("%s%d:%d", at, n, r.FirstFence/width)},
		args: append([]string{fmt.Sprint(n), packFence(r.FirstFence), string(d[:])}, kinds(r.Key.ID, r.Tags)...),
	}
	go func() {
		defer func() { <-s.indexing }()
		_, _ = s.send(context.Background(), add)
	}()
}

// packFence is a fence in a record.
func packFence(fence int64) string { return string(order.AppendUint64(nil, uint64(fence))) }

// isIndex reports whether a key belongs to the index. The others with the mark are sightings, whose names end with "}".
func (s *Store) isIndex(key string) bool {
	mark := s.options.Prefix + indexMark
	return strings.HasPrefix(key, mark) && (len(key) == len(s.index(0)) || !strings.HasSuffix(key, "}"))
}

// indexSize returns how many keys the index has, and the memory that they take: nothing if the user may not read it.
func (s *Store) indexSize(ctx context.Context) (keys, bytes int64, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for _, index := range s.indexes() {
		names, err := s.client.Do(ctx, s.client.B().Zrange().Key(index).Min("0").Max("-1").Build()).AsStrSlice()
		if _, refused := rueidis.IsRedisErr(err); refused { // users of older programs have no right to it
			continue
		}
		if err != nil {
			return 0, 0, settled(ctx, err)
		}
		measure := rueidis.Commands{s.client.B().MemoryUsage().Key(index).Build()}
		for _, name := range names {
			measure = append(measure, s.client.B().MemoryUsage().Key(index+name).Build())
		}
		for _, answer := range s.client.DoMulti(ctx, measure...) {
			n, err := answer.AsInt64()
			switch {
			case rueidis.IsRedisNil(err): // it is not there, or has expired
				continue
			case err != nil:
				return 0, 0, settled(ctx, err)
			}
			keys, bytes = keys+1, bytes+n
		}
	}
	return keys, bytes, nil
}
