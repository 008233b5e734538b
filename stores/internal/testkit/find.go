package testkit

import (
	"context"
	"errors"
	"strings"
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

// LeavesOut expects a store to list and to count the record with this ID alone, and an error that names another one,
// which it cannot read.
func LeavesOut(t testing.TB, s retrysafe.Inspector, id, name string) {
	t.Helper()
	fails := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, retrysafe.ErrUnreadable) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %v, want ErrUnreadable with %q", what, err, name)
		}
	}
	check := func(what string, found []retrysafe.Record, err error) {
		t.Helper()
		if len(found) != 1 || found[0].Key.ID != id {
			t.Errorf("%s shows %d records, want that of %q", what, len(found), id)
		}
		fails(what, err)
	}
	ctx := context.Background()
	found, err := s.List(ctx, retrysafe.ListParams{})
	check("List", found, err)
	stats, err := s.Stats(ctx)
	if n := stats.Pending + stats.Released + stats.Succeeded + stats.Failed; n != 1 {
		t.Errorf("Stats counts %d records, want 1", n)
	}
	fails("Stats", err)
	var visited []retrysafe.Record
	err = retrysafe.Walk(ctx, s, func(r retrysafe.Record) error {
		visited = append(visited, r)
		return nil
	})
	check("Walk", visited, err)
	if f, ok := s.(retrysafe.Finder); ok {
		found, err = f.Find(ctx, retrysafe.FindParams{})
		check("Find", found, err)
	}
}
