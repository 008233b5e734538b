package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 10: redisstore on a real Redis, next to redis-benchmark and to three unsafe commands.

// redisTargets returns targets by number of callers. redis-benchmark uses as many clients.
func redisTargets() map[int]float64 { return map[int]float64{1: 0.85, 16: 0.75, 256: 1.2} }

func redisGoal(ctx context.Context, r *run) error {
	syncs := []string{"always", "everysec"}
	if r.profiled != 0 {
		syncs = syncs[:1]
	}
	for _, sync := range syncs {
		if err := redisPairs(ctx, r, sync); err != nil {
			return err
		}
	}
	if r.profiled != 0 {
		return nil
	}
	return redisBytes(ctx, r)
}

// redisPairs compares on a server that syncs its log so often.
func redisPairs(ctx context.Context, r *run, sync string) (err error) {
	s, err := startRedis(sync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, callers := range []int{1, 16, 256} {
		r.progress("redisstore, redis-benchmark and three commands, appendfsync %s, %s", sync, callersText(callers))
		got, err := callRole[redisFound](ctx, r.disks()[0], "", r.profile(10), "redispairs", redisAsked{
			Address: s.Address(), Callers: callers, Rounds: r.rounds(7, 5), Round: r.length(time.Second),
			OursOnly: r.profiled != 0,
		})
		if err != nil {
			return err
		}
		for i, rate := range got.Ours {
			got.Ours[i] = 2 * rate // a pair is two commands
		}
		r.add(ctx, figure.Figure{
			Goal: 10, Disk: "as is", Unit: "x", What: fmt.Sprintf("2 × pairs ÷ SET, %s, %s", sync, callersText(callers)),
			Samples: ratios(got.Ours, got.Set), Target: figure.AtLeast(redisTargets()[callers]),
			Aside: fmt.Sprintf("%s ÷ %s commands/s; redis-benchmark with as many clients and values of %d B",
				figure.Short(figure.Median(got.Ours)), figure.Short(figure.Median(got.Set)), got.Bytes),
		})
		for i, rate := range got.Recipe {
			got.Recipe[i] = 2 * rate
		}
		r.add(ctx, figure.Figure{
			Goal: 10, Disk: "as is", Unit: "x", What: fmt.Sprintf("pairs ÷ recipe, %s, %s", sync, callersText(callers)),
			Samples: ratios(got.Ours, got.Recipe), Target: figure.AtLeast(0.8),
			Aside: fmt.Sprintf("÷ %s pairs/s; the recipe is GET, SET NX EX, SET, by the same client: unsafe, since a caller "+
				"that is late overwrites another's answer", figure.Short(figure.Median(got.Recipe)/2)),
		})
	}
	return nil
}

// redisBytes reports what a record takes of the server's memory.
func redisBytes(ctx context.Context, r *run) (err error) {
	s, err := startRedis("no")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	records := int64(1_000_000)
	if r.quick {
		records = 100_000
	}
	r.progress("fill %s records", figure.Short(float64(records)))
	found, err := callRole[redisMemory](ctx, r.disks()[0], "", "", "redisbytes",
		redisMemoryAsked{Address: s.Address(), Records: records})
	if err != nil {
		return err
	}
	r.add(ctx, figure.Figure{
		Goal: 10, Unit: "B", What: "memory of a record", Samples: []float64{math.Round(found.Bytes)},
		Target: figure.AtMost(430),
		Aside: fmt.Sprintf("used_memory, of %s records whose key, fingerprint and answer have %d B; of these a UUID of 36 B "+
			"as the key and an answer of %d B", figure.Short(float64(records)), found.Content, smallAnswer),
	})
	return nil
}

// redisAsked holds the parameters of the role.
type redisAsked struct {
	Address  string
	Callers  int
	Rounds   int
	Round    time.Duration
	OursOnly bool
}

// redisFound holds pairs, pairs of the recipe, and SETs per second, one value per round.
type redisFound struct {
	Ours, Recipe, Set []float64
	Bytes             int // of a value that SET writes
}

// redisPairsRole measures the three sides in turn. The first round is a warm-up.
func redisPairsRole(ctx context.Context, text json.RawMessage, _ func(any) error) (any, error) {
	var in redisAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	store, client, err := openRedis(ctx, in.Address, "")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	result := pairResult()
	pair := func() error { return storePair(ctx, store, result, retrysafe.Retention{}) }
	recipe := func() error { return redisRecipe(ctx, client, result) }
	bench := redisBenchmark{address: in.Address, clients: in.Callers, bytes: recordBytes(result)}
	found := redisFound{Bytes: bench.bytes}
	for i := range 1 + in.Rounds {
		n, took, err := rate(in.Callers, in.Round, pair)
		if err != nil {
			return nil, err
		}
		ours := perSecond(n, took)
		if in.OursOnly {
			continue
		}
		if n, took, err = rate(in.Callers, in.Round, recipe); err != nil {
			return nil, err
		}
		sets, err := bench.run(ctx, in.Round)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			found.Ours = append(found.Ours, ours)
			found.Recipe = append(found.Recipe, perSecond(n, took))
			found.Set = append(found.Set, sets)
		}
	}
	return found, nil
}
