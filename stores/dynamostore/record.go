package dynamostore

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// The attributes that all items have. Those of a record are in decode.
const (
	attrKey  = "pk"         // the digest of the key, in hex
	attrPart = "sk"         // which item of the key it is
	attrTTL  = "expires_at" // when DynamoDB may delete the item, in seconds since 1970
)

// The items of a key. A query returns them in this order, so that a record which moves from the first to the second
// while the query runs is seen at least once.
const (
	partRecord  = "key"   // the record that takes part in claims
	prefixOlder = "old/"  // older records that have ended, by their first fence
	prefixParts = "part/" // parts of what is too large for its record, by the fence under which they were written
)

// Instants are in microseconds. These are in seconds, as DynamoDB's time to live is.
const ttlMargin = 3600

// free is the state of a record that was released without steps. Only its fence counts.
const free retrysafe.State = 0

type item = map[string]types.AttributeValue

// record is a record with what DynamoDB keeps of it besides.
type record struct {
	storekit.Record
	raw     item
	key     retrysafe.Key
	version int64 // counts the writes since the last claim
	steps   []savedStep
	content *parts // holds Meta and Body; nil: they are in the item
}

// savedStep is a step whose Data is in other items if parts is not nil.
type savedStep struct {
	retrysafe.StepResult
	parts *parts
}

func itemKey(digest, part string) item {
	return item{attrKey: text(digest), attrPart: text(part)}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func bytesOf(b []byte) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: b}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func (r *record) digest() string { return textOf(r.raw[attrKey]) }

func (r *record) part() string { return textOf(r.raw[attrPart]) }

func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func bytesIn(v types.AttributeValue) []byte {
	if b, ok := v.(*types.AttributeValueMemberB); ok {
		return b.Value
	}
	return nil
}

// addBytes adds an attribute, unless it is empty.
func addBytes(i item, name string, b []byte) {
	if len(b) > 0 {
		i[name] = bytesOf(b)
	}
}

// ttl is the attribute of an item that nothing needs any more from an instant on. The margin makes up for clocks that
// disagree, and keeps the fence of a deleted record well behind the clock.
func ttl(end storekit.Instant) types.AttributeValue { return number(seconds(end) + ttlMargin) }

// seconds rounds up.
func seconds(micros int64) int64 { return (micros + 999_999) / 1_000_000 }

// reader reads numbers from an item, and remembers the first that is missing or wrong.
type reader struct {
	from item
	err  error
}

func (d *reader) number(name string) int64 {
	n, err := numberIn(d.from[name])
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("attribute %s: %w", name, err)
	}
	return n
}

// optional returns 0 for an attribute that is not there.
func (d *reader) optional(name string) int64 {
	if d.from[name] == nil {
		return 0
	}
	return d.number(name)
}

func numberIn(v types.AttributeValue) (int64, error) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, errors.New("want a number")
	}
	return strconv.ParseInt(n.Value, 10, 64)
}

// decode reads a record at a time.
func decode(from item, now storekit.Instant) (*record, error) {
	d := reader{from: from}
	r := &record{raw: from, version: d.number("ve")}
	r.State = retrysafe.State(d.number("st"))
	r.Fence = d.number("fe")
	copy(r.Owner[:], bytesIn(from["ow"]))
	if r.State == free {
		return r, d.explained()
	}
	r.FirstFence = d.number("ff")
	r.Attempt = d.number("nr")
	r.ClaimedAt = d.number("ca")
	r.EndsAt = d.number("en")
	r.Keep = storekit.Keep{Replay: d.number("kr"), Key: d.number("kk"), Audit: d.number("ka")}
	r.Code = d.optional("co")
	r.Omitted = from["om"] != nil
	r.Fingerprint = retrysafe.Fingerprint(bytesIn(from["fp"]))
	r.key = retrysafe.Key{Scope: string(bytesIn(from["sc"])), ID: string(bytesIn(from["ki"]))}
	r.Meta, r.Body = bytesIn(from["me"]), bytesIn(from["bo"])
	if from["ov"] != nil {
		r.EndsAt = min(r.EndsAt, now) // its lease was ended, by a clock that may be ahead of this one
	}
	var err error
	if r.Tags, err = retrysafe.ParseTags(string(bytesIn(from["ta"]))); err != nil && d.err == nil {
		d.err = fmt.Errorf("attribute ta: %w", err)
	}
	if r.content, err = decodeParts(from["pa"]); err != nil && d.err == nil {
		d.err = err
	}
	if err := r.decodeSteps(from["sp"]); err != nil && d.err == nil {
		d.err = err
	}
	return r, d.explained()
}

func (d *reader) explained() error {
	if d.err == nil {
		return nil
	}
	return fmt.Errorf("the item %q of the table is not one that a Store has written: %w: %w", textOf(d.from[attrPart]), d.err,
		retrysafe.ErrUnreadable)
}

func (r *record) decodeSteps(v types.AttributeValue) error {
	if v == nil {
		return nil
	}
	list, ok := v.(*types.AttributeValueMemberL)
	if !ok {
		return errors.New("attribute sp: want a list")
	}
	for _, element := range list.Value {
		m, ok := element.(*types.AttributeValueMemberM)
		if !ok {
			return errors.New("attribute sp: want maps")
		}
		p, err := decodeParts(m.Value["pa"])
		if err != nil {
			return err
		}
		step := retrysafe.StepResult{Name: string(bytesIn(m.Value["na"])), Data: bytesIn(m.Value["da"])}
		r.steps = append(r.steps, savedStep{step, p})
	}
	return nil
}

// encode is the step as an element of the list in a record.
func (s savedStep) encode() types.AttributeValue {
	m := item{}
	addBytes(m, "na", []byte(s.Name))
	if s.parts != nil {
		m["pa"] = s.parts.encode()
	} else {
		addBytes(m, "da", s.Data)
	}
	return &types.AttributeValueMemberM{Value: m}
}

// stepNames are the names of steps as the set in a record has them. No element of a set may be empty.
func stepNames(steps []savedStep) types.AttributeValue {
	names := make([][]byte, len(steps))
	for i, s := range steps {
		names[i] = stepName(s.Name)
	}
	return &types.AttributeValueMemberBS{Value: names}
}

func stepName(name string) []byte { return []byte("/" + name) }

func encodeSteps(steps []savedStep) types.AttributeValue {
	list := make([]types.AttributeValue, len(steps))
	for i, s := range steps {
		list[i] = s.encode()
	}
	return &types.AttributeValueMemberL{Value: list}
}

func (r *record) hasStep(name string) bool {
	for _, s := range r.steps {
		if s.Name == name {
			return true
		}
	}
	return false
}
