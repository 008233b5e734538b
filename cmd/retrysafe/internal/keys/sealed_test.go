package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The key with which an answer was encrypted is lost. The answer cannot be shown, and everything else can: its record,
// also among others, and it can be purged. Seen to fail with Inspect of the store in kept's place.
func TestKeysWhoseAnswerCannotBeDecrypted(t *testing.T) {
	t.Parallel()
	newKeyset := func() *cryptstore.Keyset {
		t.Helper()
		keyset, err := cryptstore.NewKeyset()
		clitest.Must(t, err)
		return keyset
	}
	ring := cryptstore.NewKeyring(newKeyset())
	store := cryptstore.New(memstore.New(memstore.Options{}), ring, cryptstore.Options{})
	guard := retrysafe.New(store, retrysafe.Options{})
	defer func() { clitest.Must(t, guard.Shutdown(context.Background())) }()
	charge := func(id string) {
		t.Helper()
		_, err := guard.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{Scope: "a", ID: id}},
			func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				return retrysafe.Result{Code: 201, Meta: []byte("meta"), Body: []byte("charged")}, nil
			})
		clitest.Must(t, err)
	}
	charge("lost")
	ring.Use(newKeyset())
	charge("kept")
	keys := Local{Store: store.(retrysafe.Inspector), Guard: guard}
	digest := retrysafe.Key{Scope: "a", ID: "lost"}.Digest().String()

	for name, q := range map[string]Query{
		"by scope": {State: All, Scope: new("a"), MaxAge: time.Hour}, "by digest": {State: All, Digest: digest},
		"by key and scope": {State: All, Scope: new("a"), ID: "lost"},
	} {
		q.Sightings = true
		page, err := keys.List(t.Context(), q)
		if err != nil || len(page.Keys) == 0 || page.Keys[len(page.Keys)-1].Digest != digest {
			t.Errorf("%s: List = %v, %v; want the key", name, page.Keys, err)
		}
	}
	shown, err := keys.Show(t.Context(), Look{Key: digest})
	if err != nil || len(shown) != 1 || shown[0].State != Succeeded || shown[0].Answer.Code != 201 {
		t.Errorf("Show = %v, %v; want the record", shown, err)
	}
	if _, err := keys.Show(t.Context(), Look{Key: digest, Answer: true}); !errors.Is(err, retrysafe.ErrUnreadable) {
		t.Errorf("Show of the answer: got %v, want ErrUnreadable", err)
	}
	decision := Decision{Digest: digest, Reason: "the key is lost", By: "alice"}
	if p, err := keys.Purge(t.Context(), decision); err != nil || p.Bytes == 0 {
		t.Errorf("Purge = %+v, %v; want that an answer was dropped", p, err)
	}
	_, err = guard.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{Scope: "a", ID: "lost"}}, nil)
	if !errors.Is(err, retrysafe.ErrNotReplayable) {
		t.Errorf("a retry after the purge: got %v, want ErrNotReplayable", err)
	}
}

// lossy is a store that has lost a part of each answer.
type lossy struct{ *memstore.Store }

func (s lossy) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found, err := s.Store.Inspect(ctx, d)
	if len(found) > 0 && found[0].ReplayLeft > 0 {
		found[0].Result.Body = nil
		err = fmt.Errorf("a part is missing: %w", retrysafe.ErrUnreadable)
	}
	return found, err
}

// An answer of which a part is lost can be seen, purged and reopened. Seen to fail with isPartly returning false: each
// was refused; with Lost not looked at by purge: nothing was counted; and with sightings returning the error: no key
// was listed.
func TestKeysWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	store := lossy{memstore.New(memstore.Options{})}
	ended := func(id string) retrysafe.Lease {
		l := claimed(t, store, "shop", id, nil)
		clitest.Must(t, store.Complete(t.Context(), l, retrysafe.Result{Body: []byte("answer")}, retrysafe.Retention{}))
		return l
	}
	first, second := ended("1"), ended("2")
	keys := NewLocal(store, nil)
	digest := first.Key.Digest().String()
	shown, err := keys.Show(t.Context(), Look{Key: digest})
	if err != nil || len(shown) != 1 || shown[0].State != Succeeded || shown[0].Unread == "" {
		t.Errorf("Show = %+v, %v; want the record without its answer", shown, err)
	}
	var text strings.Builder
	clitest.Must(t, PrintRecords(&text, shown))
	clitest.WantText(t, "show", text.String(), "unreadable   a part is missing")
	for name, q := range map[string]Query{
		"by scope": {State: All, Scope: new("shop"), Sightings: true}, "by digest": {State: All, Digest: digest},
	} {
		if page, err := keys.List(t.Context(), q); err != nil || len(page.Keys) == 0 {
			t.Errorf("%s: List = %v, %v; want the key", name, page.Keys, err)
		}
	}
	c := purgeCmd{DecisionFlags: DecisionFlags{Reason: "lost", By: "eve"}, namedKeys: namedKeys{Digests: []string{digest}}}
	result, err := c.purge(t.Context(), keys, &cli.Streams{Out: io.Discard, Err: io.Discard},
		selectedKeys{digests: []string{digest}})
	if err != nil || result.Purged != 1 {
		t.Errorf("purge = %+v, %v; want one answer dropped", result, err)
	}
	_, err = keys.Reopen(t.Context(), Decision{
		Digest: second.Key.Digest().String(), Fence: second.Fence, Reason: "lost", By: "eve",
	})
	clitest.Must(t, err)
}
