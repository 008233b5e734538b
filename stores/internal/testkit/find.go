package testkit

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// TagsOf returns these tags.
func TagsOf(t testing.TB, pairs map[string]string) retrysafe.Tags {
	t.Helper()
	tags, err := retrysafe.NewTags(pairs)
	if err != nil {
		t.Fatal(err)
	}
	return tags
}

// AcquireTagged claims a key that is free, with the tag order.
func AcquireTagged(t testing.TB, s retrysafe.Store, id, order string) retrysafe.Lease {
	t.Helper()
	p := Params(id)
	p.Tags = TagsOf(t, map[string]string{"order": order})
	c, err := s.Claim(context.Background(), p)
	if err != nil || c.Verdict != retrysafe.Acquired {
		t.Fatalf("claim of %s = %v, %v", id, c.Verdict, err)
	}
	return c.Lease
}

// FindIDs returns the IDs of the records that are found.
func FindIDs(t testing.TB, s retrysafe.Finder, p retrysafe.FindParams) (ids []string) {
	t.Helper()
	found, err := s.Find(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range found {
		ids = append(ids, r.Key.ID)
	}
	return ids
}
