package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// sampledKeys is how many random keys of each server Size looks at.
const sampledKeys = 100

// Size estimates how many keys the store has, and the memory that they take: a record has one, another one if older
// records of the same key are kept, and another one if it was seen again. It asks each master for the number of all
// its keys (DBSIZE), and for 100 random ones (RANDOMKEY) and the memory of those that are the store's own (MEMORY
// USAGE). The few keys of the index do not count, and their memory is added. The number of keys is exact if nothing
// else is in the database of a single server, and a share of it otherwise: with other keys for half of the database
// it is off by up to a fifth, 19 times of 20. Bytes is the mean of the sample times the number of keys, and says
// little if few answers are much larger than all others.
func (s *Store) Size(ctx context.Context) (entries, bytes int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	masters, silent := s.masters(ctx)
	if err = errSilent(silent); err == nil {
		entries, bytes, err = s.indexSize(ctx)
	}
	if entries = -entries; s.inScript == "" {
		entries = 0 // it is not known which server has which of them
	}
	for _, node := range masters {
		if err != nil {
			break
		}
		var n, b int64
		n, b, err = s.sizeOf(ctx, node)
		entries, bytes = entries+n, bytes+b
	}
	if err != nil {
		return 0, 0, fmt.Errorf("size: %w", explain(err))
	}
	return entries, bytes, nil
}

// sizeOf is Size for one server.
func (s *Store) sizeOf(ctx context.Context, node rueidis.Client) (entries, bytes int64, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	commands := rueidis.Commands{node.B().Dbsize().Build()}
	for range sampledKeys {
		commands = append(commands, node.B().Randomkey().Build())
	}
	answers := node.DoMulti(ctx, commands...)
	all, err := answers[0].AsInt64()
	if err != nil {
		return 0, 0, settled(ctx, err)
	}
	var own rueidis.Commands
	var seen int64
	for _, answer := range answers[1:] {
		key, err := answer.ToString()
		switch {
		case rueidis.IsRedisNil(err): // the database is empty
			continue
		case err != nil:
			return 0, 0, settled(ctx, err)
		}
		if s.isIndex(key) {
			continue
		}
		seen++
		if strings.HasPrefix(key, s.options.Prefix+"{") || strings.HasPrefix(key, s.options.Prefix+indexMark) {
			own = append(own, node.B().MemoryUsage().Key(key).Build())
		}
	}
	if len(own) == 0 {
		return 0, 0, nil
	}
	var sum int64
	for _, answer := range node.DoMulti(ctx, own...) {
		n, err := answer.AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) { // nil: it has expired meanwhile
			return 0, 0, settled(ctx, err)
		}
		sum += n
	}
	entries = all * int64(len(own)) / seen
	return entries, sum * entries / int64(len(own)), nil
}
