package shardstore_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// During a move a key that only the old store has is seen there, and found by its tags.
//
// Seen to fail with AddSightings given to the first shard alone, and with Find leaving out the first shard.
func TestTagsAndSightingsDuringAMove(t *testing.T) {
	tags, err := retrysafe.NewTags(map[string]string{"order": "1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range stages() {
		t.Run(stage.String(), func(t *testing.T) {
			shards := memories(2, new(atomic.Int64))
			before := open(t, shards[:1], shardstore.Options{})
			during := open(t, shards[:1], shardstore.Options{Move: &shardstore.Move{To: shards[1:], Stage: stage}})
			var all []retrysafe.KeySighting
			for i, s := range []*shardstore.Store{before, during} {
				p := claimOf(fmt.Sprint(i))
				p.Tags = tags
				c, err := s.Claim(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, retrysafe.KeySighting{
					Digest: p.Key.Digest(), FirstFence: c.Record.FirstFence,
					Sighting: retrysafe.Sighting{Kind: retrysafe.SeenInFlight, Count: int64(i + 1)},
				})
			}
			if err := during.AddSightings(t.Context(), all); err != nil {
				t.Error(err)
			}
			for i, seen := range all {
				kept, err := during.Inspect(t.Context(), seen.Digest)
				if err != nil || len(kept) != 1 || len(kept[0].Sightings) != 1 || kept[0].Sightings[0].Count != int64(i+1) {
					t.Errorf("key %d: got %v, %v", i, kept, err)
				}
			}
			found, err := during.Find(t.Context(), retrysafe.FindParams{Tag: "order=1"})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range found {
				ids = append(ids, r.Key.ID)
			}
			if want := []string{"1", "0"}; !slices.Equal(ids, want) {
				t.Errorf("got keys %q, want %q", ids, want)
			}
		})
	}
}
