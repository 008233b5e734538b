package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/bench/peers/plain"
	"github.com/retrysafe/retrysafe/bench/plots"
)

// Goal 10: redisstore on a real Redis, next to redis-benchmark, to SETs by the same client, and to three unsafe
// commands.

// redisTargets returns targets by number of callers. redis-benchmark uses as many clients.
func redisTargets() map[int]float64 { return map[int]float64{1: 0.85, 16: 0.75, 256: 1.2} }

func redisGoal(ctx context.Context, r *run) error {
	syncs := []string{"always", "everysec"}
	if r.profiled != 0 {
		syncs = syncs[:1]
	}
	for _, sync := range syncs {
		if err := compareRedis(ctx, r, sync); err != nil {
			return err
		}
	}
	if r.profiled != 0 {
		return nil
	}
	return weighRecords(ctx, r)
}

// compareRedis compares on a server that syncs its log so often.
func compareRedis(ctx context.Context, r *run, sync string) (err error) {
	s, err := startRedis(sync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	plot := map[string]string{"always": plots.RedisAlways, "everysec": plots.RedisEverySec}[sync]
	for _, callers := range []int{1, 16, 256} {
		r.progress("redisstore, redis-benchmark and plain commands, appendfsync %s, %s", sync, callersText(callers))
		in := redisPairs{
			race: r.race(7, 5, time.Second), Address: s.Address(), Callers: callers, Theirs: r.theirs(callers),
			Bytes: recordBytes(),
		}
		got, err := call[results](ctx, r.here(), in)
		if err != nil {
			return err
		}
		commands := got[ours].Rate.Times(2) // a pair is two commands
		r.addHere(ctx, figure.Ratio(fmt.Sprintf("2 × pairs ÷ SET, %s, %s", sync, callersText(callers)), commands,
			got[theirs].Rate, "commands/s").Want(figure.AtLeast(redisTargets()[callers])).
			Note("redis-benchmark with as many clients and values of %d B", in.Bytes).
			Plotted(plot, "redisstore", float64(callers), got[ours].Rate).
			Plotted(plot, "two SETs, redis-benchmark", float64(callers), got[theirs].Rate.Times(0.5)).
			Plotted(plot, "two SETs, same client", float64(callers), got[sets].Rate.Times(0.5)).
			Plotted(plot, "recipe, three commands", float64(callers), got[recipe].Rate))
		r.addHere(ctx, figure.Ratio(fmt.Sprintf("2 × pairs ÷ SET by the same client, %s, %s", sync, callersText(callers)),
			commands, got[sets].Rate, "commands/s").
			Note("the client's own share: its SET ÷ redis-benchmark's %.2f",
				got[sets].Rate.Over(got[theirs].Rate).Median()))
		r.addHere(ctx, figure.Ratio(fmt.Sprintf("pairs ÷ recipe, %s, %s", sync, callersText(callers)), got[ours].Rate,
			got[recipe].Rate, "pairs/s").Want(figure.AtLeast(0.8)).
			Note("the recipe is GET, SET NX EX, SET, by the same client: unsafe, since a caller that is late "+
				"overwrites another's answer"))
	}
	return nil
}

// recordBytes is the size of the value that redisstore writes for a pair, without its header.
func recordBytes() int {
	p, r := freshParams(), peers.Result()
	return len(p.Key.Scope) + len(p.Key.ID) + len(p.Fingerprint) + len(r.Meta) + len(r.Body)
}

// redisPairs compares with redis-benchmark, which sets values of so many bytes, and with the recipe.
type redisPairs struct {
	race
	Address                string
	Callers, Theirs, Bytes int
}

// The other sides are the recipe, and SETs by the client of our side in the process of our side. What these two have in
// common with the store is the cost of the client.
const (
	recipe = "recipe"
	sets   = "sets"
)

func (in redisPairs) play(ctx context.Context, _ func(any) error) (any, error) {
	store, client, err := openRedis(ctx, in.Address)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	bench := plain.RedisBenchmark{Address: in.Address, Bytes: in.Bytes}
	return in.run(ctx,
		side{name: ours, peer: pairsOf(store), callers: in.Callers},
		side{name: recipe, peer: plain.Redis(client), callers: in.Theirs},
		side{name: sets, peer: plain.RedisSets(client, in.Bytes), callers: in.Theirs},
		side{name: theirs, peer: bench.Work, callers: in.Theirs})
}

// weighRecords reports what a record takes of the server's memory.
func weighRecords(ctx context.Context, r *run) (err error) {
	s, err := startRedis("no")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	in := redisBytes{Address: s.Address(), Records: 1_000_000}
	if r.Quick {
		in.Records = 100_000
	}
	records := figure.Short(float64(in.Records)) + " records"
	r.progress("fill %s", records)
	found, err := call[redisBytesFound](ctx, r.here(), in)
	if err != nil {
		return err
	}
	r.add(ctx, figure.New("memory of a record", "B", math.Round(found.Bytes)).Want(figure.AtMost(430)).
		Note("used_memory, of %s whose key, fingerprint and answer have %d B", records, found.Content).
		Note("of these a UUID of 36 B as the key and an answer of %d B", smallAnswer))
	return nil
}

// redisBytes fills the server with completed records, and reads its memory before and after.
type redisBytes struct {
	Address string
	Records int64
}

// redisBytesFound holds what a record takes, and the bytes of its key, fingerprint and answer.
type redisBytesFound struct {
	Bytes   float64
	Content int
}

// smallAnswer is the size of the answers whose records are weighed: "201, and the order's number".
const smallAnswer = 64

func (in redisBytes) play(ctx context.Context, _ func(any) error) (any, error) {
	store, client, err := openRedis(ctx, in.Address)
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
	if err := forEach(ctx, fillers, 0, in.Records, func(ctx context.Context, i int64) error {
		return makePair(ctx, store, params(i), result, retrysafe.Retention{})
	}); err != nil {
		return nil, err
	}
	after, err := usedMemory(ctx, client)
	p := params(0)
	return redisBytesFound{
		Bytes:   float64(after-before) / float64(in.Records),
		Content: len(p.Key.ID) + len(p.Fingerprint) + len(result.Body),
	}, err
}
