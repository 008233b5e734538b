package plain

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/bench/peers"
)

// Redis returns a peer that looks for an answer, marks the key as taken, and saves the answer. It is not safe: a caller
// that is late overwrites another's answer.
func Redis(c rueidis.Client) peers.Peer {
	r := peers.Result()
	answer := string(peers.Fingerprint) + string(r.Meta) + string(r.Body)
	return peers.Each(func(ctx context.Context) error {
		_, _, id := newKey()
		key := "recipe:" + string(id)
		if _, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString(); !rueidis.IsRedisNil(err) {
			return fmt.Errorf("GET of a fresh key: %w", err)
		}
		taken := c.B().Set().Key(key).Value("in progress").Nx().Ex(peers.Lease).Build()
		if err := c.Do(ctx, taken).Error(); err != nil {
			return err
		}
		return c.Do(ctx, c.B().Set().Key(key).Value(answer).Ex(peers.Keep).Build()).Error()
	})
}

// RedisSets returns a peer that sets fresh keys to values of so many bytes.
func RedisSets(c rueidis.Client, bytes int) peers.Peer {
	value := strings.Repeat("x", bytes)
	return peers.Each(func(ctx context.Context) error {
		_, _, id := newKey()
		return c.Do(ctx, c.B().Set().Key("set:"+string(id)).Value(value).Ex(peers.Keep).Build()).Error()
	})
}

// RedisBenchmark runs SET with redis-benchmark, which comes with redis-cli.
type RedisBenchmark struct {
	Address string
	Bytes   int     // of a value
	rate    float64 // of the last round
}

// Work is a Peer that sets random keys. Its callers are redis-benchmark's clients.
func (b *RedisBenchmark) Work(ctx context.Context, clients int, d time.Duration) (peers.Done, error) {
	n := max(1000, int(b.rate*d.Seconds()))
	host, port, _ := strings.Cut(b.Address, ":")
	out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-t", "set", "--csv", "-c",
		strconv.Itoa(clients), "-n", strconv.Itoa(n), "-d", strconv.Itoa(b.Bytes), "-r", "100000000").CombinedOutput()
	if err != nil {
		return peers.Done{}, fmt.Errorf("redis-benchmark: %w\n%s", err, out)
	}
	b.rate, err = parseRedisBenchmark(string(out))
	return peers.Done{Count: int64(n), PerSecond: b.rate}, err
}

// parseRedisBenchmark finds the rate in a line like "SET","52137.64","0.512",…
func parseRedisBenchmark(report string) (float64, error) {
	for line := range strings.Lines(report) {
		if cells := strings.Split(strings.TrimSpace(line), ","); len(cells) > 1 && cells[0] == `"SET"` {
			return strconv.ParseFloat(strings.Trim(cells[1], `"`), 64)
		}
	}
	return 0, fmt.Errorf("redis-benchmark reports:\n%s", report)
}
