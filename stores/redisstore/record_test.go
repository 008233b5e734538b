package redisstore

import (
	"bytes"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// encode is how claim.lua and the other scripts put a record together. flags are the byte that decode reads in part.
func encode(r *record, flags byte) []byte {
	var steps []byte
	for _, s := range r.steps {
		steps = appendStep(steps, s)
	}
	b := []byte{formatOne, byte(r.State), flags}
	b = append(b, packLease(retrysafe.Lease{Owner: r.Owner, Fence: r.Fence})...)
	b = order.AppendUint64(b, uint64(r.EndsAt))
	for _, n := range []int64{r.Keep.Replay, r.Keep.Key, r.Keep.Audit, r.FirstFence, r.ClaimedAt} {
		b = order.AppendUint64(b, uint64(n))
	}
	b = order.AppendUint32(b, uint32(r.Attempt))
	b = order.AppendUint32(b, uint32(len(r.tags)+len(steps)))
	b = order.AppendUint32(b, uint32(r.Code))
	b = order.AppendUint32(b, uint32(len(r.Meta)))
	for _, text := range []string{r.key.Scope, r.key.ID, string(r.Fingerprint)} {
		b = order.AppendUint16(b, uint16(len(text)))
	}
	b = append(b, string(r.Fingerprint)+r.key.Scope+r.key.ID...)
	b = append(append(b, r.tags...), steps...)
	return append(append(b, r.Meta...), r.Body...)
}

// A value that decode reads as a whole record is that record byte for byte; any other is an error, or a head, of which
// what is there is the same. Seen to fail with the bound of the lengths taken out of decode, with Code read without its
// sign, and with the tags left in the steps.
func FuzzDecode(f *testing.F) {
	tags, _ := retrysafe.NewTags(map[string]string{"order": "1", "shop": "Zoë"})
	p := retrysafe.ClaimParams{Key: retrysafe.Key{Scope: "s", ID: "id"}, Fingerprint: "raw1:x", Tags: tags}
	full := &record{
		Record: storekit.Record{
			State: retrysafe.Failed, Owner: retrysafe.Owner{1}, Fence: 7, FirstFence: 6, Attempt: 2, ClaimedAt: 100, EndsAt: 200,
			Keep: storekit.Keep{Replay: 1, Key: 2, Audit: 3}, Code: -5, Fingerprint: p.Fingerprint,
			Meta: []byte("meta"), Body: []byte("body"),
		},
		key: p.Key, tags: newTags(tags), steps: []retrysafe.StepResult{{Name: "a", Data: []byte("1")}, {
			Name: "b",
			Data: []byte{},
		}},
	}
	whole := encode(full, omitted|watched)
	f.Add(whole)
	f.Add(whole[:headerSize])
	f.Add(whole[:len(whole)-12])
	f.Add(whole[:headerSize+20])
	f.Add(append(make([]byte, attemptAt), must(newTail(&p))...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			if !errors.Is(err, retrysafe.ErrUnreadable) {
				t.Errorf("%v", err)
			}
			return
		}
		for i, text := range []string{r.key.Scope, r.key.ID, string(r.Fingerprint)} {
			if n := int(order.Uint16(b[lengthsAt+2*i:])); n != len(text) || r.Code != int64(int32(r.Code)) {
				t.Errorf("%q of %d bytes, code %d", text, n, r.Code)
			}
		}
		steps, meta := int(order.Uint32(b[stepsAt:])), int(order.Uint32(b[metaAt:]))
		head := len(r.Fingerprint) + len(r.key.Scope) + len(r.key.ID)
		if len(b) < headerSize+head+steps+meta {
			if len(r.steps) > 0 && len(b) < headerSize+head+steps {
				t.Errorf("%d steps of a head", len(r.steps))
			}
			return
		}
		if again := encode(r, b[flagsAt]); !bytes.Equal(again, b) {
			t.Errorf("%q became %q", b, again)
		}
		if string(b[fenceAt-16:fenceEnd]) != packLease(retrysafe.Lease{Owner: r.Owner, Fence: r.Fence}) {
			t.Errorf("the lease of %q is %v, %d", b, r.Owner, r.Fence)
		}
		if !isWhole(string(b)) || !isRecord(string(b)) {
			t.Errorf("%q was read, and is not taken for a record", b)
		}
	})
}

func must(tail string, err error) string {
	if err != nil {
		panic(err)
	}
	return tail
}

// A record of a later format hides no other one. Seen to fail with each and show returning the error of decode, and
// with show.lua returning an error: nothing was shown.
func TestRecordOfALaterFormat(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	acquire(t, s, "known")
	key := s.key(acquire(t, s, "later").Key.Digest())
	later := s.client.B().Setrange().Key(key).Offset(formatAt).Value("\x02").Build()
	if err := s.client.Do(t.Context(), later).Error(); err != nil {
		t.Fatal(err)
	}
	testkit.LeavesOut(t, s, "known", key)
}
