package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Settings of Redis that decide what it may lose.
const (
	appendOnly     = "appendonly"
	appendFsync    = "appendfsync"
	evictionPolicy = "maxmemory-policy"
	minReplicas    = "min-replicas-to-write"
	longestValue   = "proto-max-bulk-len"
)

// master is what a server that takes writes says of itself.
type master struct {
	address  string
	silent   bool              // it does not answer, and may be a replica
	version  string            // "" if it does not say
	replica  bool              // it takes no writes
	replicas int               // how many are connected
	settings map[string]string // empty if they could not be read
	unread   error             // why they could not be
}

// major returns the first number of the version.
func (m *master) major() int {
	first, _, _ := strings.Cut(m.version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// evicts reports whether the server is known to delete keys to make room for others.
func (m *master) evicts() bool {
	return cmp.Or(m.settings[evictionPolicy], "noeviction") != "noeviction"
}

// longest is how many bytes of a result or a step the server takes. It breaks the connection for a longer argument.
func (m *master) longest() int {
	const rest = 4 << 10 // what a step has beside its content
	if n, err := strconv.Atoi(m.settings[longestValue]); err == nil {
		return min(n-rest, storekit.MaxContent)
	}
	return storekit.MaxContent
}

// defaultRoleTimeout bounds the question for its role that goes to each server of a cluster: one of them may be down.
const defaultRoleTimeout = 2 * time.Second

// masters returns the servers that take writes: one, or those of a cluster. silent are those that do not answer, which
// may be masters or replicas.
func (s *Store) masters(ctx context.Context) (masters map[string]rueidis.Client, silent map[string]error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		// Nodes of a client behind Sentinel would be connections to the present master only.
		return map[string]rueidis.Client{"the server": s.client}, nil
	}
	masters, silent = map[string]rueidis.Client{}, map[string]error{}
	ctx, cancel := context.WithTimeout(ctx, s.roleTimeout)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for address, node := range s.client.Nodes() {
		all.Go(func() {
			role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent[address] = err
			} else if name, err := role[0].ToString(); err == nil && name == "master" {
				masters[address] = node
			}
		})
	}
	all.Wait()
	return masters, silent
}

// readMasters reads what the masters say of themselves, in the order of their addresses. It returns an error if no
// server answers.
func (s *Store) readMasters(ctx context.Context) ([]*master, error) {
	nodes, silent := s.masters(ctx)
	var all []*master
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		m, err := readMaster(ctx, address, nodes[address])
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, errSilent(silent)
	}
	for _, address := range slices.Sorted(maps.Keys(silent)) {
		all = append(all, &master{address: address, silent: true})
	}
	return all, nil
}

// errSilent is the error of servers that do not answer; nil if there are none.
func errSilent(silent map[string]error) error {
	for _, address := range slices.Sorted(maps.Keys(silent)) {
		return fmt.Errorf("%s: %w", address, silent[address])
	}
	return nil
}

func readMaster(ctx context.Context, address string, node rueidis.Client) (*master, error) {
	m := &master{address: address}
	info, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "redis_version":
			m.version = value
		case "role":
			m.replica = value != "master"
		case "connected_slaves":
			m.replicas, _ = strconv.Atoi(value)
		}
	}
	get := node.B().ConfigGet().Parameter(appendOnly, appendFsync, evictionPolicy, minReplicas, longestValue).Build()
	m.settings, m.unread = node.Do(ctx, get).AsStrMap()
	if _, refused := rueidis.IsRedisErr(m.unread); m.unread != nil && !refused {
		return nil, fmt.Errorf("%s: %w", address, m.unread)
	}
	return m, nil
}

// instant reads the answer of TIME.
func instant(clock []string) (storekit.Instant, error) {
	if len(clock) != 2 {
		return 0, errFormat
	}
	seconds, err := strconv.ParseInt(clock[0], 10, 64)
	if err != nil {
		return 0, err
	}
	rest, err := strconv.ParseInt(clock[1], 10, 64)
	return seconds*1_000_000 + rest, err
}
