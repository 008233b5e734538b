package store

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// Each name is a URL of the same store, but for the passwords. Seen to fail with passwords taken from Ref.URL, for shards
// and for a move; with each call of sameName taken out; with url.ParseQuery, which takes a + for a space; and with a %,
// and a = in a shard's name, that is not escaped.
func TestShardedURL(t *testing.T) {
	noSettings(t)
	for _, c := range []struct {
		url, name, old, next string
		stage                int
	}{
		{"shards:?b=memory:&a=postgres://u:secret@h/db", "shards:?a=postgres://u:xxxxx@h/db&b=memory:", "a b", "", 0},
		{"move:1?from=keys.db&to=postgres://u:secret@h/db", "move:1?from=keys.db&to=postgres://u:xxxxx@h/db", "from", "to", 1},
		{
			"move:2?from=keys.db&to=shards:?a=keys.db%26b=new.db",
			"move:2?from=keys.db&to=shards:?a=keys.db%26b=new.db", "a", "a b", 2,
		},
		{
			"move:1?from=shards:?a=keys.db%26b=new.db&to=keys.db",
			"move:1?from=shards:?a=keys.db%26b=new.db&to=keys.db", "a b", "a", 1,
		},
		{"shards:?a=a+b.db&b=c d.db", "shards:?a=a+b.db&b=c d.db", "a b", "", 0},
		{"shards:?a%3Db=a.db&b=b.db", "shards:?a%3Db=a.db&b=b.db", "a=b b", "", 0},
		{"move:1?from=a+b;c.db&to=a%2525b.db", "move:1?from=a+b;c.db&to=a%2525b.db", "from", "to", 1},
	} {
		r, err := Parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		s := r.Place.(*Sharded)
		clitest.Want(t, "name", r.Name, c.name)
		clitest.Want(t, "old", names(s.Old), c.old)
		clitest.Want(t, "new", names(s.New), c.next)
		clitest.Want(t, "stage", s.Stage, c.stage)
		again, err := Parse(r.Name)
		clitest.Must(t, err)
		for i, one := range slices.Concat(s.Old, s.New) {
			clitest.Want(t, "the name of "+r.Name, slices.Concat(again.Place.(*Sharded).Old, again.Place.(*Sharded).New)[i].Ref.Name,
				one.Ref.Name)
		}
	}
}

func names(shards []ShardRef) string {
	var all []string
	for _, s := range shards {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// Seen to fail with CheckCompletion accepting every store, and only PostgreSQL, and with shards accepted unseen.
func TestStoresInWhichAServiceCanCompleteKeys(t *testing.T) {
	noSettings(t)
	for url, refused := range map[string]string{
		"postgres://u:secret@h/db":                        "",
		"mysql://u:secret@h/db":                           "",
		"shards:?a=postgres://u@h/db&b=postgres://u@i/db": "",
		"memory:":                               "store memory:, because a service cannot",
		"keys.db":                               "write store: postgres://",
		"redis://h":                             "store redis://h",
		"shards:?a=postgres://u@h/db&b=memory:": "shard b: complete: upstream cannot work with the store memory:",
		"move:1?from=postgres://u@h/db&to=nats://h/bucket":     "shard to: complete: upstream",
		"move:1?from=keys.db&to=postgres://u:secret@h/another": "shard from: complete: upstream",
	} {
		r, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		err = r.CheckCompletion()
		if (err == nil) != (refused == "") || err != nil && (!strings.Contains(err.Error(), refused) || !cli.IsRefusal(err)) {
			t.Errorf("%s: %v, want %q", url, err, refused)
		}
	}
}

// Seen to fail with each check of parseSharded, parseShards, parseMove and side taken out, and without the name in
// parseInner.
func TestShardedURLRefused(t *testing.T) {
	for url, want := range map[string]string{
		"shards:":                                        "names each of them",
		"shards:x?a=memory:":                             "names each of them",
		"shards:?a=memory:&a=keys.db":                    "one name and one URL",
		"shards:?=memory:":                               "one name and one URL",
		"shards:?a=ftp://h":                              "shard a: unsupported store scheme",
		"move:3?from=a.db&to=b.db":                       "the stage of a move is 1 or 2",
		"move:1?from=a.db":                               "to: the store has no name",
		"move:1?from=a.db&to=b.db&via=c.db":              "no \"via\"",
		"move:1?from=a.db&from=b.db&to=c.db":             "a move has one store in from",
		"move:1?from=move:1?from=a.db%26to=b.db&to=c.db": "a move within a move",
		"move:1?from=%zz":                                "cannot be read",
	} {
		if _, err := Parse(url); err == nil || !cli.IsRefusal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

// A store that stays is opened once, though it is named on both sides. Seen to fail with opened left empty.
func TestShardedOpensEachStoreOnce(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "b.db")
	r, err := Parse("move:1?from=" + a + "&to=shards:?a=" + a + "%26b=" + b)
	clitest.Must(t, err)
	s, closeStore, err := r.Open(context.Background())
	clitest.Must(t, err)
	if _, ok := s.(*shardstore.Store); !ok {
		t.Errorf("got a %T", s)
	}
	c, err := s.Claim(context.Background(), retrysafe.ClaimParams{
		Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: 1e9,
	})
	clitest.Must(t, err)
	clitest.Want(t, "verdict", c.Verdict, retrysafe.Acquired)
	clitest.Must(t, closeStore())
}
