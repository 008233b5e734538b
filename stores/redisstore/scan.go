package redisstore

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// scanCount is how many keys a server looks at in one step of a scan, in about half a millisecond.
	scanCount = 1000
	// headBytes holds the header, the fingerprint, the scope and the ID of most records.
	headBytes = 512
)

// batch is what one step of a scan has found.
type batch struct {
	now   storekit.Instant
	heads []string // of records, without steps, Meta and Body as a rule
	names []string // of the keys that have them
	bytes int64    // what they take, if the scan was asked for it
}

// scan passes all records of all masters to each, in batches. A record may be passed twice. A server that does not
// answer one step within Options.Timeout ends the scan, however long that may take as a whole.
func (s *Store) scan(ctx context.Context, bytes bool, each func(batch) error) error {
	masters, silent := s.masters(ctx)
	if err := errSilent(silent); err != nil {
		return err
	}
	for _, node := range masters {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var b batch
			var err error
			if b, cursor, err = s.step(ctx, node, cursor, bytes); err == nil {
				err = each(b)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// step makes one step of a scan of one server, and returns the cursor of the next one.
func (s *Store) step(ctx context.Context, node rueidis.Client, cursor uint64, bytes bool) (
	b batch, next uint64, err error,
) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	command := node.B().Scan().Cursor(cursor).Match(s.options.Prefix + "{*").Count(scanCount).Build()
	entry, err := node.Do(ctx, command).AsScanEntry()
	if err == nil {
		b, err = s.readBatch(ctx, node, entry.Elements, bytes)
	}
	return b, entry.Cursor, settled(ctx, err)
}

// readBatch reads the heads of these keys' records from one server.
func (s *Store) readBatch(ctx context.Context, node rueidis.Client, keys []string, bytes bool) (b batch, err error) {
	commands := rueidis.Commands{node.B().Time().Build()}
	for _, key := range keys {
		if strings.HasSuffix(key, olderSuffix) {
			commands = append(commands, node.B().Lrange().Key(key).Start(0).Stop(-1).Build())
		} else {
			commands = append(commands, node.B().Getrange().Key(key).Start(0).End(headBytes-1).Build())
		}
		if bytes {
			commands = append(commands, node.B().MemoryUsage().Key(key).Build())
		}
	}
	answers := node.DoMulti(ctx, commands...)
	clock, err := answers[0].AsStrSlice()
	if err != nil {
		return b, err
	}
	if b.now, err = instant(clock); err != nil {
		return b, err
	}
	answers = answers[1:]
	for _, key := range keys {
		found, err := s.heads(ctx, node, key, answers[0])
		if err != nil {
			return b, err
		}
		b.heads = append(b.heads, found...)
		for range found {
			b.names = append(b.names, key)
		}
		answers = answers[1:]
		if !bytes {
			continue
		}
		n, err := answers[0].AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) { // nil: it has expired meanwhile
			return b, err
		}
		b.bytes += n
		answers = answers[1:]
	}
	return b, nil
}

// heads reads what a key holds from an answer.
func (s *Store) heads(ctx context.Context, node rueidis.Client, key string, answer rueidis.RedisResult) (
	[]string, error,
) {
	if strings.HasSuffix(key, olderSuffix) {
		return answer.AsStrSlice()
	}
	head, err := answer.ToString()
	if err == nil && len(head) == headBytes && !isWhole(head) {
		head, err = node.Do(ctx, node.B().Get().Key(key).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
	}
	if err != nil || !isRecord(head) {
		return nil, err
	}
	return []string{head}, nil
}
