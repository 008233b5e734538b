package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

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
func openRedis(ctx context.Context, address string) (*redisstore.Store, rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, client, nil
}

// usedMemory returns the bytes that the server's data takes.
func usedMemory(ctx context.Context, c rueidis.Client) (int64, error) {
	return infoNumber(ctx, c, "memory", "used_memory")
}

// infoNumber returns a number that the server reports in a section of INFO.
func infoNumber(ctx context.Context, c rueidis.Client, section, name string) (int64, error) {
	text, err := c.Do(ctx, c.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, name)
}
