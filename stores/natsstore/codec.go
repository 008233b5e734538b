package natsstore

import (
	"encoding/binary"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// format is the first byte of each entry. A version of this package that writes another layout writes another one.
const format = 1

// Bits of a record's flags.
const (
	flagClaimedNow = 1 << iota
	flagEndsFromNow
	flagOmitted
	flagLapsed
	flagTags
)

// partID names the parts of one version of an entry. It is random.
type partID [8]byte

// parts says where the content of an entry is that does not fit into it: in count entries of their own.
type parts struct {
	id    partID
	count uint64
}

var errFormat = fmt.Errorf("natsstore: the bucket holds an entry that this version cannot read: it was damaged, or "+
	"written by a newer version or by another program: %w", retrysafe.ErrUnreadable)

// An entry is packed as the format, parts, the key, and the records, first without and then with what can be large:
//
//	format | parts.count [parts.id] | key | number of records | head of each | content of each
//
// The content is cut off if the entry would be too large: see Store.split.

func (e *entry) all() []*record {
	all := []*record{&e.record}
	for i := range e.older {
		all = append(all, &e.older[i])
	}
	return all
}

// packHead returns the entry without its content.
func (e *entry) packHead(size int) []byte {
	b := append(make([]byte, 0, size), format)
	b = binary.AppendUvarint(b, e.parts.count)
	if e.parts.count > 0 {
		b = append(b, e.parts.id[:]...)
	}
	b = appendText(b, e.key.Scope)
	b = appendText(b, e.key.ID)
	b = binary.AppendUvarint(b, uint64(len(e.older)+1))
	for _, r := range e.all() {
		b = r.appendHead(b)
	}
	return b
}

// packContent appends the content.
func (e *entry) packContent(b []byte) []byte {
	for _, r := range e.all() {
		b = appendText(b, r.Meta)
		b = appendText(b, r.Body)
		b = binary.AppendUvarint(b, uint64(len(r.steps)))
		for _, s := range r.steps {
			b = appendText(b, s.Name)
			b = appendText(b, s.Data)
		}
	}
	return b
}

// contentSize is about how many bytes packContent appends; never less.
func (e *entry) contentSize() int {
	n := 0
	for _, r := range e.all() {
		n += r.contentSize()
	}
	return n
}

func (r *record) contentSize() int {
	n := len(r.Meta) + len(r.Body) + 3*binary.MaxVarintLen64
	for _, s := range r.steps {
		n += len(s.Name) + len(s.Data) + 2*binary.MaxVarintLen64
	}
	return n
}

// size is about how many bytes the record takes in an entry; never less.
func (r *record) size() int { return len(r.appendHead(nil)) + r.contentSize() }

func (r *record) appendHead(b []byte) []byte {
	var flags byte
	for bit, set := range map[byte]bool{
		flagClaimedNow: r.claimedNow, flagEndsFromNow: r.endsFromNow, flagOmitted: r.Omitted,
		flagLapsed: r.lapsed, flagTags: r.Tags != retrysafe.Tags{},
	} {
		if set {
			flags |= bit
		}
	}
	b = append(b, byte(r.State), flags)
	b = append(b, r.Owner[:]...)
	for _, n := range []int64{
		r.Fence, r.FirstFence, r.Attempt, r.ClaimedAt, r.EndsAt, r.Keep.Replay, r.Keep.Key, r.Keep.Audit, r.Code,
	} {
		b = binary.AppendVarint(b, n)
	}
	b = appendText(b, r.Fingerprint)
	if flags&flagTags != 0 {
		b = appendText(b, r.Tags.String())
	}
	return b
}

func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// unpackHead reads what packHead has written, and returns what follows it.
func unpackHead(b []byte, at storekit.Instant) (*entry, []byte, error) {
	u := unpacker{b: b}
	e := &entry{at: at}
	if u.byte() != format {
		return nil, nil, errFormat
	}
	e.parts.count = u.uvarint()
	if e.parts.count > 0 {
		copy(e.parts.id[:], u.take(uint64(len(e.parts.id))))
	}
	e.key = retrysafe.Key{Scope: string(u.text()), ID: string(u.text())}
	for i := range u.count() {
		r := u.head()
		if i == 0 {
			e.endsHere = r.endsFromNow
		}
		r.settle(at)
		if i == 0 {
			e.record = r
		} else {
			e.older = append(e.older, r)
		}
	}
	if u.bad {
		return nil, nil, errFormat
	}
	return e, u.b, nil
}

// unpackContent reads what packContent has written. What it reads shares its memory with b.
func (e *entry) unpackContent(b []byte) error {
	u := unpacker{b: b}
	for _, r := range e.all() {
		r.Meta, r.Body = u.text(), u.text()
		for range u.count() {
			r.steps = append(r.steps, retrysafe.StepResult{Name: string(u.text()), Data: u.text()})
		}
	}
	if u.bad || len(u.b) > 0 {
		return errFormat
	}
	return nil
}

// unpacker reads from the front of b. After it has read past the end it returns zeros, and bad is set.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.bad, u.b = true, nil
		return nil
	}
	taken := u.b[:n:n]
	u.b = u.b[n:]
	return taken
}

func (u *unpacker) byte() byte {
	if b := u.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return v
}

// count reads a number of things of which each takes a byte or more, so that damage cannot ask for much memory.
func (u *unpacker) count() uint64 {
	n := u.uvarint()
	if n > uint64(len(u.b)) {
		u.bad, u.b = true, nil
		return 0
	}
	return n
}

func (u *unpacker) varint() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return v
}

// text returns nil for an empty text.
func (u *unpacker) text() []byte {
	if t := u.take(u.uvarint()); len(t) > 0 {
		return t
	}
	return nil
}

func (u *unpacker) head() (r record) {
	r.State = retrysafe.State(u.byte())
	flags := u.byte()
	r.claimedNow, r.endsFromNow = flags&flagClaimedNow != 0, flags&flagEndsFromNow != 0
	r.Omitted, r.lapsed = flags&flagOmitted != 0, flags&flagLapsed != 0
	copy(r.Owner[:], u.take(uint64(len(r.Owner))))
	for _, n := range []*int64{
		&r.Fence, &r.FirstFence, &r.Attempt, &r.ClaimedAt, &r.EndsAt, &r.Keep.Replay, &r.Keep.Key, &r.Keep.Audit, &r.Code,
	} {
		*n = u.varint()
	}
	r.Fingerprint = retrysafe.Fingerprint(u.text())
	if flags&flagTags != 0 {
		var err error
		r.Tags, err = retrysafe.ParseTags(string(u.text()))
		u.bad = u.bad || err != nil
	}
	return r
}
