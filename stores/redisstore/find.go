package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// mostFound is how many entries of the index one call reads at most.
	mostFound = 250
	// skew is how far fences may be ahead of the clock.
	skew = 24 * time.Hour
)

// Errors of Find for what it has no index of.
var (
	errNoIndex = fmt.Errorf("Options.Index is not set; use List or Walk, which read every record: %w",
		errors.ErrUnsupported)
	errNoArrivals = fmt.Errorf("in a Redis Cluster there is an index of tags and of IDs only, not of scopes, ages and "+
		"states; use List or Walk, which read every record: %w", errors.ErrUnsupported)
)

// Find returns p.Limit of the records that p selects, the newest first, without Meta, Body and steps. It reads the
// index of IDs, or else that of tags, or else that of all records in the order of their arrival, until it has found
// enough; what else p names it compares with each record that it reads. Entries of records that are gone cost it time
// until their bucket expires. [Options.Timeout] is for each page of the index, not for the whole search.
//
// Without Options.Index it returns errors.ErrUnsupported. In a Cluster it does so if p has neither ID nor Tag, and
// misses records whose claims did not reach the index. Everywhere it misses those that programs have claimed which do
// not write the index. For MinAge it begins with records that arrived a day after that age, and misses one whose
// fence was ahead of the clock by more.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var unread storekit.Unread
	found, err := s.find(ctx, p, &unread)
	if err = cmp.Or(err, unread.Err()); err != nil {
		err = fmt.Errorf("find: %w", explain(err))
	}
	return found, err
}

func (s *Store) find(ctx context.Context, p retrysafe.FindParams, unread *storekit.Unread) ([]retrysafe.Record, error) {
	p.ListParams = storekit.ListParams(p.ListParams)
	search := search{
		before: packFence(min(p.Before, lastInstant)),
		limit:  min(p.Limit+1, mostFound), // one more than the page shows whether that has all with its last fence
		oldest: lastInstant, youngest: -lastInstant,
	}
	if p.MinAge > skew {
		search.youngest = storekit.Micros(p.MinAge - skew)
	}
	if p.MaxAge != 0 {
		search.oldest = min(storekit.Micros(p.MaxAge), lastInstant)
	}
	switch {
	case !s.options.Index:
		return nil, errNoIndex
	case p.ID != "":
		search.kind = byID(p.ID)
	case p.Tag != "":
		search.kind = byTag(p.Tag)
	case s.inScript == "":
		return nil, errNoArrivals
	default:
		search.kind = byArrival
	}
	page := storekit.Page{Limit: p.Limit}
	for n, last := 0, int64(math.MaxInt64); ; {
		entries, err := s.entries(ctx, search)
		if err != nil {
			return nil, err
		}
		records, err := s.show(ctx, entries, unread)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if p.Selects(r) {
				page.Add(r)
				if n++; n == p.Limit {
					last = r.FirstFence
				}
			}
		}
		// Records whose first fence is that of the last one come with it.
		if len(entries) < search.limit || n >= p.Limit && entries[len(entries)-1].fence() < last {
			return page.Records(), nil
		}
		search.before = string(entries[len(entries)-1])
	}
}

// search is what is read of an index.
type search struct {
	kind             string
	before           string // an entry, or its first fence
	limit            int
	youngest, oldest int64 // ages in microseconds; youngest may be negative
}

// entry is the first fence of a record, and the digest of its key.
type entry string

func (e entry) fence() int64 { return int64(order.Uint64([]byte(e[:8]))) }

func (e entry) digest() retrysafe.Digest { return retrysafe.Digest([]byte(e[8:])) }

// entries returns those of all indexes that a search finds, the newest first.
func (s *Store) entries(ctx context.Context, q search) ([]entry, error) {
	var calls []*call
	args := []string{
		q.kind, q.before, strconv.Itoa(q.limit), strconv.FormatInt(q.oldest, 10), strconv.FormatInt(q.youngest, 10),
	}
	for _, index := range s.indexes() {
		calls = append(calls, &call{what: s.scripts.find, key: index, args: args})
	}
	var all []entry
	err := s.sendAll(ctx, calls, func(_ int, answer rueidis.RedisMessage) error {
		found, err := answer.AsStrSlice()
		for _, e := range found {
			if len(e) != fenceSize+len(retrysafe.Digest{}) {
				return errFormat
			}
			all = append(all, entry(e))
		}
		return err
	})
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(b, a) })
	return all[:min(len(all), q.limit)], err
}

// show returns the records of these entries that people may read, in the same order, without those that it cannot
// decode.
func (s *Store) show(ctx context.Context, entries []entry, unread *storekit.Unread) ([]retrysafe.Record, error) {
	var calls []*call
	for _, e := range entries {
		calls = append(calls, &call{what: s.scripts.show, key: s.key(e.digest()), args: []string{string(e[:fenceSize])}})
	}
	var shown []retrysafe.Record
	err := s.sendAll(ctx, calls, func(i int, answer rueidis.RedisMessage) error {
		parts, err := answer.ToArray()
		if err != nil || len(parts) != 3 {
			return cmp.Or(err, errFormat)
		}
		now, err := parts[0].AsInt64()
		if err != nil {
			return err
		}
		head, err := parts[1].AsBytes()
		if err != nil || len(head) == 0 {
			return err
		}
		r, err := decode(head)
		if err != nil {
			unread.LeaveOut(calls[i].key, err)
			return nil
		}
		if !r.Readable(now) {
			return nil
		}
		seen, err := readSightings(parts[2], now)
		v := r.summary(now)
		v.Sightings = seen[r.FirstFence]
		shown = append(shown, v)
		return err
	})
	return shown, err
}

// sendAll makes calls that nothing depends on, all at once, and gives their answers to each in their order. A call that
// a server has refused is sent again where that may help, one whose connection has broken is not.
func (s *Store) sendAll(ctx context.Context, calls []*call, each func(i int, answer rueidis.RedisMessage) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var commands rueidis.Commands
	for _, c := range calls {
		keys := s.keys(c)
		commands = append(commands, s.client.B().Evalsha().Sha1(c.what.sha1).Numkeys(int64(len(keys))).Key(keys...).
			Arg(c.args...).Build())
	}
	if len(commands) == 0 {
		return nil
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		answer, err := result.ToMessage()
		if _, refused := rueidis.IsRedisErr(err); refused {
			answer, err = s.send(ctx, calls[i])
		}
		if err == nil {
			err = each(i, answer)
		}
		if err != nil {
			return settled(ctx, err)
		}
	}
	return nil
}

// compareDigests orders keys.
func compareDigests(a, b retrysafe.Digest) int { return bytes.Compare(a[:], b[:]) }
