package shardstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
)

func named(names ...string) []*shard {
	shards := make([]*shard, len(names))
	for i, name := range names {
		shards[i] = newShard(Shard{Name: name})
	}
	return shards
}

func digest(i int) retrysafe.Digest {
	return retrysafe.Key{Scope: "tenant", ID: fmt.Sprint(i)}.Digest()
}

// Programs of all versions must agree. Seen to fail with the last line of mix left out, and with the
// second half of the digest.
func TestPlacesNeverChange(t *testing.T) {
	shards := named("a", "b", "c")
	var got strings.Builder
	for i := range 40 {
		got.WriteString(place(shards, digest(i)).Name)
	}
	const want = "bbbccaccbcacacbaabbabbcbacaabcbcbaaaaabc"
	if got.String() != want {
		t.Errorf("got %s, want %s", got.String(), want)
	}
}

// The order of the shards does not matter. Seen to fail with a place that returns the first shard.
func TestPlaceDependsOnNamesAlone(t *testing.T) {
	shards, reversed := named("a", "b", "c"), named("c", "b", "a")
	for i := range 1000 {
		if one, other := place(shards, digest(i)), place(reversed, digest(i)); one.Name != other.Name {
			t.Fatalf("key %d: %s, and in another order %s", i, one.Name, other.Name)
		}
	}
}

// Each shard gets its part of the keys, within 5 standard deviations. Seen to fail with a mix that returns its
// argument.
func TestPlaceIsEven(t *testing.T) {
	const keys, n = 30_000, 3
	count := map[string]int{}
	for i := range keys {
		count[place(named("eu-1", "eu-2", "eu-3"), digest(i)).Name]++
	}
	for name, got := range count {
		if got < keys/n-410 || got > keys/n+410 {
			t.Errorf("shard %s has %d of %d keys", name, got, keys)
		}
	}
	if len(count) != n {
		t.Errorf("%d of %d shards have keys", len(count), n)
	}
}

// A new shard takes its part of the keys, and no key moves between the others. Seen to fail with a place that takes
// the shard whose index is the remainder of a division by their number.
func TestPlaceMovesOnlyToTheNewShard(t *testing.T) {
	const keys = 10_000
	two, three := named("a", "b"), named("a", "b", "c")
	moved := 0
	for i := range keys {
		before, after := place(two, digest(i)), place(three, digest(i))
		if before.Name == after.Name {
			continue
		}
		moved++
		if after.Name != "c" {
			t.Fatalf("key %d moves from %s to %s", i, before.Name, after.Name)
		}
	}
	if moved < keys*30/100 || moved > keys*37/100 {
		t.Errorf("%d of %d keys move, want a third", moved, keys)
	}
}

// A tie goes to the smaller name. Seen to fail with the name left out of place.
func TestPlaceOfATie(t *testing.T) {
	twins := []*shard{{Shard: Shard{Name: "a"}}, {Shard: Shard{Name: "b"}}}
	for range 2 {
		if got := place(twins, digest(1)).Name; got != "a" {
			t.Errorf("got %s, want a", got)
		}
		slices.Reverse(twins)
	}
}
