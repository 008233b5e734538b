package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Inspect returns what is kept of a key, the newest record first. It is one Query for each megabyte. If a part of an
// answer or a step is missing from the table, it returns the record without that, and an error that wraps
// [ErrPartMissing] and [retrysafe.ErrUnreadable].
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found, err := s.inspect(ctx, d)
	// An answer may be purged, or a record deleted, while its parts are read.
	for b := (backoff{}); errors.Is(err, ErrPartMissing); found, err = s.inspect(ctx, d) {
		if b.tries++; b.tries > 3 {
			break
		}
	}
	return found, call(ctx, "inspect", d, err)
}

func (s *Store) inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found := []retrysafe.Record{}
	k, err := s.kept(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, r := range k.readable {
		v, missing := r.forPeople(k.items, k.now)
		if missing != nil {
			err = fmt.Errorf("%w; retrysafe keys purge or reopen makes the key usable: %w", missing, retrysafe.ErrUnreadable)
		}
		found = append(found, v)
	}
	return found, err
}

// kept is all that there is of a key.
type kept struct {
	now      storekit.Instant
	items    map[string]item // by sort key
	readable []*record       // the newest first
	copies   []*record       // older records that are there as the newest one too
}

func (s *Store) kept(ctx context.Context, d retrysafe.Digest) (k kept, err error) {
	if err := ctx.Err(); err != nil {
		return k, err
	}
	if k.now, err = s.serverTime(ctx); err != nil {
		return k, err
	}
	if k.items, err = s.items(ctx, d.String(), ""); err != nil {
		return k, err
	}
	var newest *record
	for name, i := range k.items {
		if name != partRecord && !strings.HasPrefix(name, prefixOlder) {
			continue
		}
		r, err := decode(i, k.now)
		if err != nil {
			return k, err
		}
		if name == partRecord {
			newest = r
		}
		if r.State != free && r.Readable(k.now) {
			k.readable = append(k.readable, r)
		}
	}
	k.readable = slices.DeleteFunc(k.readable, func(r *record) bool {
		isCopy := r != newest && newest != nil && newest.State != free && r.FirstFence == newest.FirstFence
		if isCopy {
			k.copies = append(k.copies, r)
		}
		return isCopy
	})
	slices.SortFunc(k.readable, func(a, b *record) int { return cmp.Compare(b.FirstFence, a.FirstFence) })
	return k, nil
}

// forPeople is the record with all there is until Audit has passed. It returns ErrPartMissing beside the record if it
// leaves out what is missing from items.
func (r *record) forPeople(items map[string]item, now storekit.Instant) (v retrysafe.Record, err error) {
	v = r.View(r.key, now)
	if r.State.Ended() && v.AuditLeft == 0 {
		v.Result.Meta, v.Result.Body = nil, nil
		return v, nil
	}
	if r.content != nil {
		var data []byte
		if data, err = r.content.join(items); err == nil {
			v.Result.Meta, v.Result.Body = data[:r.content.meta:r.content.meta], data[r.content.meta:]
		}
	}
	for _, step := range r.steps {
		if step.parts != nil {
			var missing error
			if step.Data, missing = step.parts.join(items); missing != nil {
				err = missing
				continue
			}
		}
		v.Steps = append(v.Steps, step.StepResult)
	}
	return v, err
}

// List returns up to p.Limit records, the newest first, without Meta, Body and steps. It reads the whole table, answers
// included, whatever it selects: DynamoDB has no order by age without another index, which each claim would pay for. A
// table of 1 GB costs 262,144 read units.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	p = storekit.ListParams(p)
	in := s.scanRecords("ff < :before", item{":before": number(p.Before)})
	if p.State != 0 {
		*in.FilterExpression += " AND st = :state"
		in.ExpressionAttributeValues[":state"] = number(int64(p.State))
	}
	switch {
	case p.Scope == nil:
	case *p.Scope == "":
		*in.FilterExpression += " AND attribute_not_exists(sc)"
	default:
		*in.FilterExpression += " AND sc = :scope"
		in.ExpressionAttributeValues[":scope"] = bytesOf([]byte(*p.Scope))
	}
	page := storekit.Page{Limit: p.Limit} // a record that moves while the scan runs may come twice
	var unread storekit.Unread
	err := s.scanReadable(ctx, in, &unread, func(r *record, now storekit.Instant) error {
		page.Add(r.View(r.key, now))
		return nil
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		err = fmt.Errorf("list: %w", explain(err))
	}
	return page.Records(), err
}

// Walk visits the records that List shows, in one pass over the table.
func (s *Store) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	in := s.scanRecords("ff > :free", item{})
	var unread storekit.Unread
	err := s.scanReadable(ctx, in, &unread, func(r *record, now storekit.Instant) error {
		return visit(r.View(r.key, now))
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		return fmt.Errorf("walk: %w", explain(err))
	}
	return nil
}

// scanReadable is scan for the records that people can read, without those that it cannot decode.
func (s *Store) scanReadable(ctx context.Context, in *dynamodb.ScanInput, unread *storekit.Unread,
	each func(r *record, now storekit.Instant) error,
) error {
	return s.scan(ctx, in, func(i item, now storekit.Instant) error {
		r, err := decode(i, now)
		switch {
		case err != nil:
			unread.LeaveOut(textOf(i[attrKey]), err)
			return nil
		case !r.Readable(now):
			return nil
		}
		return each(r, now)
	})
}

// scanRecords reads records, older ones included, that a condition selects, without content.
func (s *Store) scanRecords(condition string, values item) *dynamodb.ScanInput {
	values[":record"], values[":older"], values[":free"] = text(partRecord), text(prefixOlder), number(int64(free))
	return &dynamodb.ScanInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true),
		FilterExpression:          aws.String("(sk = :record OR begins_with(sk, :older)) AND st > :free AND " + condition),
		ProjectionExpression:      aws.String("pk, sk, st, ow, fe, ff, nr, ve, ca, en, ov, kr, kk, ka, co, om, fp, ta, sc, ki"),
		ExpressionAttributeValues: values,
	}
}

// scan calls each with every item, page by page.
func (s *Store) scan(ctx context.Context, in *dynamodb.ScanInput, each func(i item, now storekit.Instant) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		now, err := s.serverTime(ctx)
		if err != nil {
			return err
		}
		out, err := s.client.Scan(ctx, in, s.clock.measured)
		if err != nil {
			return err
		}
		for _, i := range out.Items {
			if err := each(i, now); err != nil {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// Stats counts the records. It reads the whole table, as List does. Bytes is what the table takes, by the read units
// that DynamoDB counted, each 4 KB.
func (s *Store) Stats(ctx context.Context) (stats retrysafe.Stats, err error) {
	in := s.scanRecords("ff > :zero", item{":zero": number(0)})
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	if err := ctx.Err(); err != nil {
		return stats, err
	}
	var unread storekit.Unread
	for {
		now, err := s.serverTime(ctx)
		if err != nil {
			return stats, fmt.Errorf("stats: %w", explain(err))
		}
		out, err := s.client.Scan(ctx, in, s.clock.measured)
		if err != nil {
			return stats, fmt.Errorf("stats: %w", explain(err))
		}
		if out.ConsumedCapacity != nil {
			stats.Bytes += int64(aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) * 4096)
		}
		for _, i := range out.Items {
			if r, err := decode(i, now); err != nil {
				unread.LeaveOut(textOf(i[attrKey]), err)
			} else {
				storekit.Count(&stats, r.State, !r.LeaseRuns(now))
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			if err = unread.Err(); err != nil {
				err = fmt.Errorf("stats: %w", err)
			}
			return stats, err
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// Size returns the number of items in the table and the bytes that they take, as DynamoDB describes the table
// (DescribeTable): it updates both about every six hours, and charges nothing for them. A record is one item, and one
// more for each part of a long answer, for long steps, and for an older record of the same key; expired items count
// until DynamoDB or a sweep deletes them.
func (s *Store) Size(ctx context.Context) (entries, bytes int64, err error) {
	table, err := s.describe(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("size: %w", explain(err))
	}
	return aws.ToInt64(table.ItemCount), aws.ToInt64(table.TableSizeBytes), nil
}

// ScansFully implements [retrysafe.FullScanner]: List and Stats read the whole table.
func (s *Store) ScansFully() bool { return true }
