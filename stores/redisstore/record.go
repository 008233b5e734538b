package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// lastInstant is the last one that a script can represent, since its numbers are doubles: in the year 2255.
const lastInstant = 1<<53 - 1

// Where the parts of a record are. Numbers are unsigned and big-endian. The scripts count from 1.
//
// A key that was released without steps keeps the first fenceEnd bytes, with a state of 0.
const (
	formatAt   = 0  // formatOne
	stateAt    = 1  // of retrysafe.State
	flagsAt    = 2  // omitted, watched, and the class in the index times 4: 0 if it is not there
	ownerAt    = 3  // 16 bytes
	fenceAt    = 19 // 8 bytes
	fenceEnd   = fenceAt + fenceSize
	endsAt     = 27 // instant: see storekit.Record
	keepAt     = 35 // three windows of 8 bytes: Replay, Key, Audit
	firstAt    = 59 // the first claim's fence, 8 bytes
	claimedAt  = 67 // instant
	attemptAt  = 75 // 4 bytes
	stepsAt    = 79 // length of the steps, 4 bytes
	codeAt     = 83 // 4 bytes, signed
	metaAt     = 87 // length of Meta, 4 bytes
	lengthsAt  = 91 // of scope, ID and fingerprint, 2 bytes each
	headerSize = 97 // followed by fingerprint, scope, ID, steps, Meta, Body
)

// tagsStep is the name of the first step of a record that has tags: the number of tags in a byte, the hash of each, and
// their text. Programs that know no tags keep it like any step, and no work can have saved it.
const tagsStep = retrysafe.AuditStepPrefix + "tags"

// olderSuffix follows the key of a record in the name of the list that holds the key's older records.
const olderSuffix = ":older"

const (
	formatOne = 1

	fenceSize = 8

	omitted = 1
	watched = 2 // ends of the attempt are published
)

var order = binary.BigEndian

// record is a record as it was read.
type record struct {
	storekit.Record
	key   retrysafe.Key
	tags  []byte // the step that holds them; empty if there are none
	steps []retrysafe.StepResult
}

// errFormat is returned for values that no version known here has written.
var errFormat = fmt.Errorf("redisstore: a record has an unknown format: was it written by a newer version, or by "+
	"another program under the same prefix? %w", retrysafe.ErrUnreadable)

// isRecord reports whether b holds a record, and not only the fence of a key that was released.
func isRecord(b string) bool { return len(b) > fenceEnd }

// isWhole reports whether b has the header, the fingerprint, the scope, the ID and the tags.
func isWhole(b string) bool {
	if len(b) < headerSize {
		return false
	}
	h := []byte(b[stepsAt:headerSize])
	end := lengthsAt - stepsAt
	at := headerSize + int(order.Uint16(h[end:])) + int(order.Uint16(h[end+2:])) + int(order.Uint16(h[end+4:]))
	if order.Uint32(h) == 0 || len(b) < at {
		return len(b) >= at
	}
	steps := []byte(b[at:])
	return len(steps) >= 8+len(tagsStep) && (string(steps[8:8+len(tagsStep)]) != tagsStep ||
		len(steps) >= 8+len(tagsStep)+int(order.Uint32(steps[4:])))
}

// decode reads a record, of which everything behind the ID may be missing.
func decode(b []byte) (*record, error) {
	if len(b) < headerSize || b[formatAt] != formatOne {
		return nil, errFormat
	}
	r := &record{Record: storekit.Record{
		State:      retrysafe.State(b[stateAt]),
		Owner:      retrysafe.Owner(b[ownerAt:fenceAt]),
		Fence:      int64(order.Uint64(b[fenceAt:])),
		FirstFence: int64(order.Uint64(b[firstAt:])),
		Attempt:    int64(order.Uint32(b[attemptAt:])),
		ClaimedAt:  int64(order.Uint64(b[claimedAt:])),
		EndsAt:     int64(order.Uint64(b[endsAt:])),
		Keep: storekit.Keep{
			Replay: int64(order.Uint64(b[keepAt:])),
			Key:    int64(order.Uint64(b[keepAt+8:])),
			Audit:  int64(order.Uint64(b[keepAt+16:])),
		},
		Code:    int64(int32(order.Uint32(b[codeAt:]))),
		Omitted: b[flagsAt]&omitted != 0,
	}}
	rest := b[headerSize:]
	take := func(n int) []byte {
		n = min(n, len(rest))
		taken := rest[:n:n]
		rest = rest[n:]
		return taken
	}
	scope, id := int(order.Uint16(b[lengthsAt:])), int(order.Uint16(b[lengthsAt+2:]))
	fingerprint := int(order.Uint16(b[lengthsAt+4:]))
	if len(rest) < scope+id+fingerprint {
		return nil, errFormat
	}
	r.Fingerprint = retrysafe.Fingerprint(take(fingerprint))
	r.key.Scope, r.key.ID = string(take(scope)), string(take(id))
	var err error
	steps := int(order.Uint32(b[stepsAt:]))
	r.tags = tagsIn(rest[:min(steps, len(rest))])
	if r.Tags, err = decodeTags(r.tags); err != nil || steps > len(rest) {
		return r, err
	}
	take(len(r.tags))
	r.steps, err = decodeSteps(take(steps - len(r.tags)))
	r.Meta = take(int(order.Uint32(b[metaAt:])))
	r.Body = rest
	return r, err
}

// tagsIn returns what of the steps is the step with the tags.
func tagsIn(steps []byte) []byte {
	const start = 8 + len(tagsStep)
	if len(steps) < start || string(steps[8:start]) != tagsStep {
		return nil
	}
	return steps[:min(start+int(order.Uint32(steps[4:])), len(steps))]
}

// decodeTags reads what newTags has written.
func decodeTags(step []byte) (retrysafe.Tags, error) {
	const start = 8 + len(tagsStep)
	if len(step) <= start {
		return retrysafe.Tags{}, nil
	}
	text := start + 1 + hashSize*int(step[start])
	if len(step) < text {
		return retrysafe.Tags{}, errFormat
	}
	tags, err := retrysafe.ParseTags(string(step[text:]))
	if err != nil {
		return retrysafe.Tags{}, errFormat
	}
	return tags, nil
}

// newTags returns the step with these tags; nothing if there are none.
func newTags(tags retrysafe.Tags) []byte {
	if tags == (retrysafe.Tags{}) {
		return nil
	}
	data := []byte{0}
	for tag := range tags.Lines() {
		data[0]++
		data = append(data, hash(tag)...)
	}
	return appendStep(nil, retrysafe.StepResult{Name: tagsStep, Data: append(data, tags.String()...)})
}

// appendStep appends a step: the lengths of its name and its data, 4 bytes each, and both.
func appendStep(b []byte, s retrysafe.StepResult) []byte {
	b = order.AppendUint32(b, uint32(len(s.Name)))
	b = order.AppendUint32(b, uint32(len(s.Data)))
	return append(append(b, s.Name...), s.Data...)
}

func decodeSteps(b []byte) ([]retrysafe.StepResult, error) {
	var steps []retrysafe.StepResult
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, errFormat
		}
		name, data := int(order.Uint32(b)), int(order.Uint32(b[4:]))
		if b = b[8:]; len(b) < name+data {
			return nil, errFormat
		}
		steps = append(steps, retrysafe.StepResult{Name: string(b[:name]), Data: b[name : name+data : name+data]})
		b = b[name+data:]
	}
	return steps, nil
}

// newTail is what a new record has from its attempt on, in claim.lua.
func newTail(p *retrysafe.ClaimParams) (string, error) {
	for _, part := range []string{p.Key.Scope, p.Key.ID, string(p.Fingerprint)} {
		if len(part) > math.MaxUint16 {
			return "", fmt.Errorf("a scope, an ID or a fingerprint has %d bytes; the limit is %d", len(part), math.MaxUint16)
		}
	}
	tags := newTags(p.Tags)
	b := make([]byte, 0, headerSize-attemptAt+len(p.Key.Scope)+len(p.Key.ID)+len(p.Fingerprint)+len(tags))
	b = order.AppendUint32(b, 1)
	b = order.AppendUint32(b, uint32(len(tags)))
	b = append(b, make([]byte, lengthsAt-codeAt)...)
	b = order.AppendUint16(b, uint16(len(p.Key.Scope)))
	b = order.AppendUint16(b, uint16(len(p.Key.ID)))
	b = order.AppendUint16(b, uint16(len(p.Fingerprint)))
	b = append(b, p.Fingerprint...)
	b = append(b, p.Key.Scope...)
	b = append(b, p.Key.ID...)
	return string(append(b, tags...)), nil
}

// packKeep is a Retention in a record.
func packKeep(k storekit.Keep) string {
	b := make([]byte, 0, 24)
	for _, window := range []int64{k.Replay, k.Key, k.Audit} {
		b = order.AppendUint64(b, uint64(min(window, lastInstant)))
	}
	return string(b)
}

// packLease is a lease in a record: its owner and its fence.
func packLease(l retrysafe.Lease) string {
	return string(order.AppendUint64(append(make([]byte, 0, 24), l.Owner[:]...), uint64(l.Fence)))
}
