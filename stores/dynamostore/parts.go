package dynamostore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// MaxBytes is the largest result (Meta and Body together), and the largest step, that a Store keeps.
const MaxBytes = 32 << 20

const (
	// maxInlineResult is the largest result that is stored in its record. A failed condition costs as much as writing
	// the item would, and so does each extension of a lease: records are to be small.
	maxInlineResult = 32 << 10
	maxInlineStep   = 4 << 10
	partBytes       = 384 << 10 // an item has 400 KB at most
	// stepYear is how much longer than its record a step in parts is kept, because extending the lease does not extend
	// the life of the parts.
	stepYear = 366 * 24 * 3600 * 1_000_000
)

// parts names the items that hold what is too large for a record. They are written before the record names them, under
// a name that is drawn anew for each call. So readers see all of them or none, and two calls never mix theirs. Parts
// that no record names are deleted by DynamoDB's time to live.
type parts struct {
	prefix string // of the sort keys
	bytes  int64
	meta   int64 // how many of the bytes are Meta
	until  storekit.Instant
}

func (p *parts) encode() types.AttributeValue {
	return &types.AttributeValueMemberM{Value: item{
		"pr": text(p.prefix), "by": number(p.bytes), "me": number(p.meta), "un": number(p.until),
	}}
}

// decodeParts reads what encode has written; nil if there is nothing. Numbers that no Store writes are errors: memory
// is allocated by them, and an answer is divided.
func decodeParts(v types.AttributeValue) (*parts, error) {
	if v == nil {
		return nil, nil
	}
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return nil, errors.New("attribute pa: want a map")
	}
	d := reader{from: m.Value}
	p := &parts{
		prefix: textOf(m.Value["pr"]), bytes: d.number("by"), meta: d.number("me"), until: d.number("un"),
	}
	if d.err == nil && !p.valid() {
		d.err = errors.New("attribute pa: it names parts that cannot be")
	}
	return p, d.err
}

func (p *parts) valid() bool {
	return strings.HasPrefix(p.prefix, prefixParts) && 0 <= p.meta && p.meta <= p.bytes && p.bytes <= MaxBytes
}

// count is how many items there are.
func (p *parts) count() int { return int((p.bytes + partBytes - 1) / partBytes) }

func (p *parts) name(i int) string { return fmt.Sprintf("%s%04d", p.prefix, i) }

// save writes data that is kept at least until an instant.
func (s *Store) save(ctx context.Context, digest string, fence int64, data []byte, until storekit.Instant,
) (*parts, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d (dynamostore.MaxBytes); lower Policy.MaxResult, or keep the "+
			"content elsewhere and save a reference", retrysafe.ErrResultTooLarge, len(data), MaxBytes)
	}
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // never returns an error
	p := &parts{
		prefix: prefixParts + fenceText(fence) + "/" + hex.EncodeToString(drawn[:]) + "/",
		bytes:  int64(len(data)), until: until,
	}
	for i := range p.count() {
		part := itemKey(digest, p.name(i))
		part["da"] = bytesOf(data[i*partBytes : min((i+1)*partBytes, len(data))])
		part[attrTTL] = ttl(until)
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: part}, s.clock.measured)
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// load reads what save has written. It returns ErrPartMissing if something is missing.
func (s *Store) load(ctx context.Context, digest string, p *parts) ([]byte, error) {
	found, err := s.items(ctx, digest, p.prefix)
	if err != nil {
		return nil, err
	}
	return p.join(found)
}

// join puts the parts together.
func (p *parts) join(found map[string]item) ([]byte, error) {
	data := make([]byte, 0, p.bytes)
	for i := range p.count() {
		data = append(data, bytesIn(found[p.name(i)]["da"])...)
	}
	if int64(len(data)) != p.bytes {
		return nil, fmt.Errorf("%w: %d of %d bytes are there", ErrPartMissing, len(data), p.bytes)
	}
	return data, nil
}

// items reads the items of a key whose sort keys begin with prefix.
func (s *Store) items(ctx context.Context, digest, prefix string) (map[string]item, error) {
	in := &dynamodb.QueryInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pk = :key"),
		ExpressionAttributeValues: item{":key": text(digest)},
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("pk = :key AND begins_with(sk, :prefix)")
		in.ExpressionAttributeValues[":prefix"] = text(prefix)
	}
	found := map[string]item{}
	for {
		out, err := s.client.Query(ctx, in, s.clock.measured)
		if err != nil {
			return nil, err
		}
		for _, i := range out.Items {
			// A record that has moved while the query ran may come twice under one sort key: the first one counts.
			if _, twice := found[textOf(i[attrPart])]; !twice {
				found[textOf(i[attrPart])] = i
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return found, nil
		}
		in.ExclusiveStartKey = maps.Clone(out.LastEvaluatedKey)
	}
}

// remove deletes parts that no record names any more. What it cannot delete, DynamoDB's time to live deletes.
func (s *Store) remove(ctx context.Context, digest string, p *parts) error {
	if p == nil {
		return nil
	}
	for i := range p.count() {
		if _, err := s.delete(ctx, itemKey(digest, p.name(i)), "", nil); err != nil {
			return err
		}
	}
	return nil
}

// keep makes the steps of a record that are in parts last as long as the record. Usually they do.
func (s *Store) keep(ctx context.Context, digest string, steps []savedStep, until storekit.Instant) error {
	for _, step := range steps {
		if step.parts == nil || step.parts.until >= until {
			continue
		}
		for i := range step.parts.count() {
			_, _, err := s.write(ctx, itemKey(digest, step.parts.name(i)), write{
				update: "SET expires_at = :ttl", condition: "expires_at < :ttl", values: item{":ttl": ttl(until)},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
