package natsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// full is an entry with a value in every field that is packed.
func full() *entry {
	tags, _ := retrysafe.NewTags(map[string]string{"order": "1", "shop": "Zoë"})
	r := record{
		Record: storekit.Record{
			State: retrysafe.Failed, Owner: retrysafe.NewOwner(), Fence: 7, FirstFence: 6, Attempt: 2,
			ClaimedAt: 100, EndsAt: 200,
			Keep: storekit.Keep{Replay: 1, Key: 2, Audit: 3}, Code: -5, Omitted: true, Fingerprint: "raw1:x", Tags: tags,
			Meta: []byte("meta"), Body: []byte("body"),
		},
		lapsed: true,
		steps:  []retrysafe.StepResult{{Name: "a", Data: []byte("1")}, {Name: "b"}},
	}
	older := r
	older.Fence, older.Meta, older.steps = 3, nil, nil
	return &entry{record: r, key: retrysafe.Key{Scope: "s", ID: "\x00i"}, older: []record{older}, at: 1000}
}

// Seen to fail with each field of appendHead packed as zero, and the state as pending.
func TestEntriesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	e := full()
	got, content, err := unpackHead(e.packContent(e.packHead(0)), e.at)
	if err == nil {
		err = got.unpackContent(content)
	}
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, %v; want %+v", got, err, e)
	}
	e.claimedNow, e.endsFromNow = true, true
	got, _, err = unpackHead(e.packHead(0), e.at)
	if err != nil || got.ClaimedAt != 1100 || got.EndsAt != 1200 || got.claimedNow || got.endsFromNow {
		t.Errorf("relative instants: got %+v, %v", got, err)
	}
	if size := e.contentSize(); size < len(e.packContent(nil)) {
		t.Errorf("the content is larger than %d bytes", size)
	}
}

// Damage is an error, and no panic. Seen to fail with count returning what it has read.
func FuzzUnpack(f *testing.F) {
	whole := full().packContent(full().packHead(0))
	f.Add(whole)
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Add(append(bytes.Clone(whole), 0))
	f.Add([]byte{format, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, content, err := unpackHead(b, 1)
		if err == nil {
			err = e.unpackContent(content)
		}
		if err != nil && !errors.Is(err, errFormat) {
			t.Error(err)
		}
		if err != nil || e.parts.count > 0 {
			return
		}
		again, rest, err := unpackHead(e.packContent(e.packHead(0)), 1)
		if err == nil {
			err = again.unpackContent(rest)
		}
		if err != nil || !reflect.DeepEqual(again.record, e.record) {
			t.Errorf("%v: %+v came back as %+v", err, e, again)
		}
	})
}

// A large answer is kept in parts, which go with the version that they belong to.
// Seen to fail with the old parts left by try, and with the same name for the parts of all versions: they were deleted
// while they were needed.
func TestPartsGoWithTheirVersion(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	s.tryTimeout = time.Minute // a try that is cut off leaves its parts to their TTL: whether it has happened is unknown
	parts := func() int {
		info, err := s.reads.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return int(info.State.Msgs) - 1
	}
	l := acquire(t, s, "k")
	step := retrysafe.StepResult{Name: "a", Data: make([]byte, 3<<20)}
	for range 2 { // the second one, after Extend, writes all parts anew
		if err := s.Checkpoint(t.Context(), l, step); err != nil {
			t.Fatal(err)
		}
		if err := s.Extend(t.Context(), l, 1<<40); err != nil {
			t.Fatal(err)
		}
		if n := parts(); n != 4 {
			t.Errorf("%d parts for 3 MiB, want 4", n)
		}
	}
	if err := s.Complete(t.Context(), l, retrysafe.Result{Body: step.Data}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	if n := parts(); n != 7 {
		t.Errorf("%d parts for 6 MiB, want 7", n)
	}
	purge := retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "1"}
	if err := s.Purge(t.Context(), l.Key.Digest(), l.Fence, purge); err != nil {
		t.Fatal(err)
	}
	if n := parts(); n != 0 {
		t.Errorf("%d parts after Purge, want 0", n)
	}
}

// A server that has started again with a smaller max_payload gets smaller parts. Seen to fail with limit returning
// largest: the client refused to send the message.
func TestSmallerMessagesThanBefore(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	s.largest = 8 << 20
	l := acquire(t, s, "k")
	r := retrysafe.Result{Body: make([]byte, 3<<20)}
	if err := s.Complete(t.Context(), l, r, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), params("k"))
	if err != nil || c.Verdict != retrysafe.Done || len(c.Record.Result.Body) != len(r.Body) {
		t.Errorf("got %v with %d bytes, %v", c.Verdict, len(c.Record.Result.Body), err)
	}
}

// unpurged is a stream that refuses to delete messages.
type unpurged struct{ jetstream.Stream }

func (unpurged) Purge(context.Context, ...jetstream.StreamPurgeOpt) error {
	return errors.New("refused")
}

// A Purge that could not delete the parts of the answer deletes them when it is repeated, also if the key was reopened
// in between. Seen to fail with the parts deleted that the version has which was read: they stayed.
func TestPurgeAgainDropsTheParts(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	reads := s.reads
	for _, reopened := range []bool{false, true} {
		l := acquire(t, s, fmt.Sprint("reopened ", reopened))
		answer := retrysafe.Result{Body: make([]byte, 3<<20)}
		if err := s.Complete(t.Context(), l, answer, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
		d, trail := l.Key.Digest(), func(name string) retrysafe.StepResult {
			return retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + name}
		}
		s.reads = unpurged{reads}
		if err := s.Purge(t.Context(), d, l.Fence, trail("1")); err == nil {
			t.Fatal("Purge has not noticed that the parts are there")
		}
		s.reads = reads
		if reopened {
			if err := s.Reopen(t.Context(), d, l.Fence, trail("2")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Purge(t.Context(), d, l.Fence, trail("1")); err != nil {
			t.Fatal(err)
		}
		info, err := s.reads.Info(t.Context(), jetstream.WithSubjectFilter(partSpace(s.options.Bucket)+">"))
		if err != nil || len(info.State.Subjects) > 0 {
			t.Errorf("reopened %t: %d parts are left, %v", reopened, len(info.State.Subjects), err)
		}
	}
}

// A record of which a part is lost is no free key, and no server that is away. People can see it, and what they decide
// makes the key usable. Seen to fail with "ErrUnreadable" taken out of errLost, and with lost not looked at in claim,
// in underLease and in Inspect.
func TestLostPart(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for name, decide := range map[string]func(context.Context, retrysafe.Digest, int64, retrysafe.StepResult) error{
		"purge": s.Purge, "reopen": s.Reopen,
	} {
		l := acquire(t, s, name)
		d, answer := l.Key.Digest(), retrysafe.Result{Body: make([]byte, 1<<20)}
		loseParts(t, s, l, answer, 0)
		for what, err := range map[string]error{
			"claim":    try(s.Claim(t.Context(), params(name))),
			"complete": s.Complete(t.Context(), l, answer, retrysafe.Retention{}),
			"inspect":  try(s.Inspect(t.Context(), d)),
		} {
			if !errors.Is(err, retrysafe.ErrUnreadable) || strings.Contains(err.Error(), "majority") {
				t.Errorf("%s: %s = %v, want ErrUnreadable", name, what, err)
			}
		}
		found, _ := s.Inspect(t.Context(), d)
		if len(found) != 1 || found[0].State != retrysafe.Succeeded || found[0].Fence != l.Fence {
			t.Errorf("%s: Inspect = %+v, want the record without its answer", name, found)
		}
		if err := decide(t.Context(), d, l.Fence, retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "1"}); err != nil {
			t.Errorf("%s = %v", name, err)
		}
		c, err := s.Claim(t.Context(), params(name))
		want := map[string]retrysafe.Verdict{"purge": retrysafe.Done, "reopen": retrysafe.Acquired}[name]
		if err != nil || c.Verdict != want || c.Record.ReplayLeft != 0 {
			t.Errorf("%s: then Claim = %v with %v of Replay, %v; want %v", name, c.Verdict, c.Record.ReplayLeft, err, want)
		}
	}
}

// A record that has expired keeps no attempt from its key, also if a part of it is lost. Seen to fail with lost looked
// at alone in claim.
func TestLostPartOfAnExpiredRecord(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	loseParts(t, s, acquire(t, s, "k"), retrysafe.Result{Body: make([]byte, 1<<20)}, 2*time.Hour)
	if err := s.Extend(t.Context(), acquire(t, s, "k"), time.Minute); err != nil {
		t.Errorf("Extend = %v", err)
	}
}

// loseParts completes a key, lets time pass, and deletes the parts of its answer.
func loseParts(t *testing.T, s *Store, l retrysafe.Lease, answer retrysafe.Result, passes time.Duration) {
	t.Helper()
	if err := s.Complete(t.Context(), l, answer, retrysafe.Retention{Key: time.Hour}); err != nil {
		t.Fatal(err)
	}
	age(t, s, passes)
	if err := s.reads.Purge(t.Context(), jetstream.WithPurgeSubject(partSpace(s.options.Bucket)+">")); err != nil {
		t.Fatal(err)
	}
}

func try[T any](_ T, err error) error { return err }

// An entry of a later format hides no other one. Seen to fail with visitEntry returning the error of unpackHead:
// nothing was shown.
func TestEntryOfALaterFormat(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	acquire(t, s, "known")
	d := acquire(t, s, "later").Key.Digest()
	if _, err := s.js.Publish(t.Context(), s.recordSubject(d), []byte{format + 1}); err != nil {
		t.Fatal(err)
	}
	testkit.LeavesOut(t, s, "known", d.String())
}
