package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// latencyStores returns the stores that goal 12 measures.
func latencyStores() []latencyStore {
	return []latencyStore{
		{name: "memstore", recordBytes: 1300, start: nowhere, open: openMemory},
		{name: "sqlitestore", disk: "as is", start: twoFiles, open: openFile},
		{name: "pgstore", disk: "as is", start: twoSchemas, open: openSchema},
		{name: "redisstore", disk: "as is", recordBytes: 900, start: twoServers, open: openServer},
	}
}

func latencyStoreNamed(name string) (latencyStore, error) {
	for _, s := range latencyStores() {
		if s.name == name {
			return s, nil
		}
	}
	return latencyStore{}, fmt.Errorf("goal 12 has no store %q", name)
}

// nowhere is the place of a store that lives in the process that measures.
func nowhere(context.Context, *run) (latencyPlaces, error) {
	return latencyPlaces{stop: func() error { return nil }}, nil
}

func openMemory(context.Context, string) (retrysafe.Store, func() error, error) {
	s := memstore.New(memstore.Options{MaxKeys: math.MaxInt, MaxBytes: math.MaxInt64})
	return s, func() error { return nil }, nil
}

func twoFiles(_ context.Context, r *run) (latencyPlaces, error) {
	dir, err := os.MkdirTemp(r.dir, "latency")
	return latencyPlaces{
		Empty: filepath.Join(dir, "empty.db"), Full: filepath.Join(dir, "full.db"),
		stop: func() error { return os.RemoveAll(dir) },
	}, err
}

func openFile(_ context.Context, path string) (retrysafe.Store, func() error, error) {
	s, err := sqlitestore.Open(path, sqlitestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// twoSchemas fills by statements: claims and completions would take most of the run.
func twoSchemas(ctx context.Context, r *run) (latencyPlaces, error) {
	s, err := startPostgres(ctx, r)
	if err != nil {
		return latencyPlaces{}, err
	}
	places := latencyPlaces{stop: s.close}
	for schema, place := range map[string]*string{"empty": &places.Empty, "large": &places.Full} {
		asked, err := s.store(ctx, schema)
		if err != nil {
			return latencyPlaces{}, errors.Join(err, s.close())
		}
		text, err := json.Marshal(asked)
		if err != nil {
			return latencyPlaces{}, errors.Join(err, s.close())
		}
		*place = string(text)
	}
	const second = 1_000_000
	places.insert = func(ctx context.Context, records int64) error { return s.insert(ctx, "large", records, second) }
	places.settle = func(ctx context.Context) error { return s.settle(ctx, "large") }
	return places, nil
}

func openSchema(ctx context.Context, place string) (retrysafe.Store, func() error, error) {
	var asked pgAsked
	if err := json.Unmarshal([]byte(place), &asked); err != nil {
		return nil, nil, err
	}
	s, err := asked.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s, s.close, nil
}

// twoServers are two servers, one for each store: a command takes as long as its server takes, whatever the prefix.
func twoServers(context.Context, *run) (latencyPlaces, error) {
	empty, err := startRedis("everysec")
	if err != nil {
		return latencyPlaces{}, err
	}
	full, err := startRedis("everysec")
	if err != nil {
		return latencyPlaces{}, errors.Join(err, empty.Close())
	}
	return latencyPlaces{
		Empty: empty.Address(), Full: full.Address(),
		stop: func() error { return errors.Join(empty.Close(), full.Close()) },
	}, nil
}

func openServer(ctx context.Context, address string) (retrysafe.Store, func() error, error) {
	s, client, err := openRedis(ctx, address, "")
	if err != nil {
		return nil, nil, err
	}
	return s, func() error { client.Close(); return nil }, nil
}

// freeMemory returns how many bytes of memory programs can get without swapping; 0 if the system does not say.
func freeMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib * 1024
		}
	}
	return 0
}
