package retrysafe

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of [Tags].
const (
	// MaxTags is how many pairs a key has at most.
	MaxTags = 4
	// MaxTagNameBytes is the length of a name: letters and digits of ASCII, '-', '_' and '.'.
	MaxTagNameBytes = 32
	// MaxTagValueBytes is the length of a value: UTF-8 without control characters.
	MaxTagValueBytes = 128
)

// Tags are name–value pairs by which people find a key that they do not know: order=1234, customer=alice. Records keep
// them in the clear, and support tools show them: do not make one of a secret. The zero Tags has none. Tags with the
// same pairs are equal.
type Tags struct {
	text string // name=value, a line for each, sorted
}

// NewTags returns the tags with these names and values. It returns an error that names the first pair that cannot be
// one.
func NewTags(pairs map[string]string) (Tags, error) {
	if len(pairs) > MaxTags {
		return Tags{}, fmt.Errorf("retrysafe: %d tags, the limit is %d", len(pairs), MaxTags)
	}
	lines := make([]string, 0, len(pairs))
	for name, value := range pairs {
		if err := validateTag(name, value); err != nil {
			return Tags{}, err
		}
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	return Tags{strings.Join(lines, "\n")}, nil
}

// validateTag does not repeat the value, which may be private.
func validateTag(name, value string) error {
	isNameless := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
	switch {
	case name == "" || isNameless || len(name) > MaxTagNameBytes:
		return fmt.Errorf("retrysafe: the tag name %q is not 1 to %d letters, digits, '-', '_' or '.'", name, MaxTagNameBytes)
	case value == "" || len(value) > MaxTagValueBytes:
		return fmt.Errorf("retrysafe: the value of tag %s has %d bytes; it must have 1 to %d", name, len(value), MaxTagValueBytes)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("retrysafe: the value of tag %s is not UTF-8, or has control characters", name)
	}
	return nil
}

// ParseTags reads what [Tags.String] printed.
func ParseTags(text string) (Tags, error) {
	if text == "" {
		return Tags{}, nil
	}
	pairs := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, "=")
		if _, twice := pairs[name]; twice {
			return Tags{}, fmt.Errorf("retrysafe: the tag %s is there twice", name)
		}
		pairs[name] = value
	}
	return NewTags(pairs)
}

// All returns the pairs, sorted by name.
func (t Tags) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for line := range t.Lines() {
			if name, value, _ := strings.Cut(line, "="); !yield(name, value) {
				return
			}
		}
	}
}

// Lines returns the pairs as [FindParams.Tag] has them: name=value.
func (t Tags) Lines() iter.Seq[string] {
	if t.text == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(t.text, "\n")
}

// Has reports whether one of the pairs is tag, in the form name=value.
func (t Tags) Has(tag string) bool {
	for line := range t.Lines() {
		if line == tag {
			return true
		}
	}
	return false
}

// String returns the pairs sorted by name, as name=value, a line for each.
func (t Tags) String() string { return t.text }

// MarshalText implements encoding.TextMarshaler, with what String returns.
func (t Tags) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// UnmarshalText reads what MarshalText has written.
func (t *Tags) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTags(string(text))
	return err
}

// MarshalBinary implements encoding.BinaryMarshaler, for encoding/gob.
func (t Tags) MarshalBinary() ([]byte, error) { return t.MarshalText() }

// UnmarshalBinary reads what MarshalBinary has written.
func (t *Tags) UnmarshalBinary(data []byte) error { return t.UnmarshalText(data) }

// Finder is implemented by Inspectors that keep the tags of keys, and whose Find uses an index. Other stores may keep
// tags too, and then show them in their records, or ignore ClaimParams.Tags.
type Finder interface {
	// Find returns p.Limit of the records that Inspect would show and that p selects, if there are so many, the newest
	// first, without Meta, Body and steps.
	Find(ctx context.Context, p FindParams) ([]Record, error)
}

// FindParams selects the records that [Finder.Find] returns: those that fit all fields that are set.
type FindParams struct {
	// ListParams select by state and scope, and continue a listing.
	ListParams
	// Tag selects records that have this tag, in the form name=value; "": any.
	Tag string
	// ID selects records whose Key.ID this is, of whichever scope; "": any.
	ID string
	// ScopePrefix selects records whose scope begins with it; "": any.
	ScopePrefix string
	// MinAge and MaxAge select records whose Age is at least, or at most, so long; 0: any.
	MinAge, MaxAge time.Duration
}

// Selects reports whether p selects a record of a store that has no index for it.
func (p FindParams) Selects(r Record) bool {
	return (p.Before == 0 || r.FirstFence < p.Before) && (p.State == 0 || r.State == p.State) &&
		(p.Scope == nil || r.Key.Scope == *p.Scope) && strings.HasPrefix(r.Key.Scope, p.ScopePrefix) &&
		(p.Tag == "" || r.Tags.Has(p.Tag)) && (p.ID == "" || r.Key.ID == p.ID) &&
		r.Age >= p.MinAge && (p.MaxAge == 0 || r.Age <= p.MaxAge)
}

// SightingKind says what became of a request whose key had a record already.
type SightingKind uint8

const (
	// SeenReplayed means that the request got the saved answer, or how the work ended if the answer was not kept.
	SeenReplayed SightingKind = iota + 1
	// SeenWaiting means that the request waited for another attempt. What it got in the end is counted besides.
	SeenWaiting
	// SeenInFlight means that the request was refused because another attempt had the key, or still had it when the
	// request had waited long enough.
	SeenInFlight
	// SeenMismatch means that the request was refused because it differed from the one that first used the key.
	SeenMismatch
	// SeenRefused means that the request was refused because the outcome is unknown, or the answer can no longer be read.
	SeenRefused
)

// String returns the kind's name.
func (k SightingKind) String() string {
	return name(int(k), "replayed", "waiting", "in flight", "mismatch", "refused")
}

// Sighting counts the requests with a key that had a record already, of one kind.
type Sighting struct {
	Kind  SightingKind
	Count int64
	// First and Last are how long ago the first and the last of them came.
	First, Last time.Duration
	// Code is that of the answer that the last one got; 0 if it got none.
	Code int
}

// KeySighting is a Sighting to be added to the record of a key.
type KeySighting struct {
	Digest Digest
	// FirstFence says which record of the key was seen.
	FirstFence int64
	Sighting
}

// SightingKeeper is implemented by stores that keep how often keys were seen again. A Guard gives it what it has
// counted, once a second. It takes no part in claims.
type SightingKeeper interface {
	// AddSightings adds counts to records: to Count what is given, First and Last become the earliest and the latest, and
	// Code that of the latest. Inspect shows the sums as Record.Sightings, and they go with the record. Those of records
	// that do not exist are left out. It waits for no claim, and no claim waits for it for longer than one takes. If it
	// fails, some of the counts may have been added; callers do not repeat it.
	AddSightings(ctx context.Context, all []KeySighting) error
}

// MaxSightings is the largest number of sightings that a Guard gives to AddSightings at once.
const MaxSightings = 1000

// Merge returns the sum of two sightings of one kind.
func (s Sighting) Merge(other Sighting) Sighting {
	if other.Last < s.Last {
		s.Last, s.Code = other.Last, other.Code
	}
	s.First = max(s.First, other.First)
	s.Count += other.Count
	return s
}
