package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// startRedis starts a server that syncs its log always, everysec or no. It does not rewrite its log meanwhile.
func startRedis(sync string) (*real.Redis, error) {
	return real.LaunchRedis(real.RedisOptions{Settings: map[string]string{
		"appendonly": "yes", "appendfsync": sync, "save": `""`, "auto-aof-rewrite-percentage": "0",
	}})
}

// openRedis opens a store with a client of its own.
func openRedis(ctx context.Context, address, prefix string) (*redisstore.Store, rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(ctx, client, redisstore.Options{Prefix: prefix})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, client, nil
}

// redisRecipe makes a pair in the way of most articles: look for an answer, mark the key as taken, save the answer.
func redisRecipe(ctx context.Context, c rueidis.Client, r retrysafe.Result) error {
	owner := retrysafe.NewOwner()
	key := "recipe:" + hex.EncodeToString(owner[:])
	if _, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString(); !rueidis.IsRedisNil(err) {
		return fmt.Errorf("GET of a fresh key: %w", err)
	}
	taken := c.B().Set().Key(key).Value("in progress").Nx().ExSeconds(30).Build()
	if err := c.Do(ctx, taken).Error(); err != nil {
		return err
	}
	answer := string(pairFingerprint) + string(r.Meta) + string(r.Body)
	return c.Do(ctx, c.B().Set().Key(key).Value(answer).ExSeconds(24*60*60).Build()).Error()
}

// recordBytes is the size of the value that redisstore writes for a pair, without its header.
func recordBytes(r retrysafe.Result) int {
	p := freshParams()
	return len(p.Key.Scope) + len(p.Key.ID) + len(p.Fingerprint) + len(r.Meta) + len(r.Body)
}

// redisBenchmark runs SET with redis-benchmark, which comes with redis-cli.
type redisBenchmark struct {
	address string
	clients int
	bytes   int
	rate    float64 // of the last run
}

// run sets random keys for about d and returns the rate.
func (b *redisBenchmark) run(ctx context.Context, d time.Duration) (float64, error) {
	n := max(1000, int(b.rate*d.Seconds()))
	host, port, _ := strings.Cut(b.address, ":")
	out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-t", "set", "--csv",
		"-c", strconv.Itoa(b.clients), "-n", strconv.Itoa(n), "-d", strconv.Itoa(b.bytes), "-r", "100000000").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w\n%s", err, out)
	}
	b.rate, err = parseRedisBenchmark(string(out))
	return b.rate, err
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

// redisMemoryAsked holds the parameters of the role redisbytes.
type redisMemoryAsked struct {
	Address string
	Records int64
}

// redisMemory holds what a record takes, and the bytes of its key, fingerprint and answer.
type redisMemory struct {
	Bytes   float64
	Content int
}

// smallAnswer is the size of the answers whose records are weighed: "201, and the order's number".
const smallAnswer = 64

// redisBytesRole fills the server with completed records, and reads its memory before and after.
func redisBytesRole(ctx context.Context, text json.RawMessage, _ func(any) error) (any, error) {
	var in redisMemoryAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	store, client, err := openRedis(ctx, in.Address, "")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	before, err := usedMemory(ctx, client)
	if err != nil {
		return nil, err
	}
	result := retrysafe.Result{Code: 201, Body: make([]byte, smallAnswer)}
	params := func(i int64) retrysafe.ClaimParams {
		p := fillParams(i)
		p.Key = retrysafe.Key{ID: fmt.Sprintf("%036d", i)}
		return p
	}
	if err := fillWith(0, in.Records, func(i int64) error {
		c, err := store.Claim(ctx, params(i))
		if err == nil {
			err = store.Complete(ctx, c.Lease, result, retrysafe.Retention{})
		}
		return err
	}); err != nil {
		return nil, err
	}
	after, err := usedMemory(ctx, client)
	p := params(0)
	return redisMemory{
		Bytes:   float64(after-before) / float64(in.Records),
		Content: len(p.Key.ID) + len(p.Fingerprint) + len(result.Body),
	}, err
}

// usedMemory returns the bytes that the server's data takes.
func usedMemory(ctx context.Context, c rueidis.Client) (int64, error) {
	text, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO memory has no used_memory")
}
