package shardstore

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/retrysafe/retrysafe"
)

// shard is a Shard, and what finding a key's shard needs of its name.
type shard struct {
	Shard
	seed uint64 // the first 8 bytes of the SHA-256 of the name
}

func newShard(s Shard) *shard {
	sum := sha256.Sum256([]byte(s.Name))
	return &shard{s, binary.BigEndian.Uint64(sum[:8])}
}

// placement is where a key is.
type placement struct {
	first  *shard // the one that decides
	second *shard // the other one during a move; nil if the key does not move
}

// place returns where the key is.
func (s *Store) place(d retrysafe.Digest) placement {
	from := place(s.old, d)
	if s.next == nil {
		return placement{first: from}
	}
	to := place(s.next, d)
	switch {
	case from == to:
		return placement{first: from}
	case s.stage == NewDecides:
		return placement{first: to, second: from}
	}
	return placement{first: from, second: to}
}

// place returns the shard that has the key: the one with the highest score. Of shards with the same score, which no
// test has seen, it is the one with the smaller name, so that the order of the shards does not matter.
func place(shards []*shard, d retrysafe.Digest) *shard {
	first, second := binary.BigEndian.Uint64(d[:8]), binary.BigEndian.Uint64(d[8:])
	var best *shard
	var highest uint64
	for _, s := range shards {
		score := mix(mix(s.seed^first) ^ second)
		if best == nil || score > highest || score == highest && s.Name < best.Name {
			best, highest = s, score
		}
	}
	return best
}

// mix returns a number each bit of which depends on each bit of x: the finalizer of splitmix64. It must never change,
// because a key would be looked for on another shard than the one that has it.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
