package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
)

// Errors of New and of a Store. They are wrapped in an error that says what to do; compare with errors.Is.
var (
	// ErrEviction is returned by New if a server deletes keys to make room for others.
	ErrEviction = errors.New("redisstore: the server may delete claims to make room; set maxmemory-policy to " +
		"noeviction, or Options.AllowEviction if running the work of a key again does no harm")
	// ErrVersion is returned by New if a server is too old.
	ErrVersion = errors.New("redisstore: Redis 7 or newer, or Valkey, is needed")
	// ErrNotReplicated is returned by a call that was made, but not confirmed by Options.WaitReplicas replicas in time. A
	// failover may lose it. Repeat the call: that waits again.
	ErrNotReplicated = errors.New("redisstore: not enough replicas have confirmed in time, and a failover may lose it; " +
		"repeat the call, or check the replicas (INFO replication)")
)

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err
	}
	text := e.Error()
	switch {
	case strings.HasPrefix(text, "FORMAT"): // of a script
		return errFormat
	case strings.HasPrefix(text, "OOM"):
		return fmt.Errorf("%w: the server has reached maxmemory; raise it, or shorten the Retention: %w",
			retrysafe.ErrStoreFull, err)
	case strings.HasPrefix(text, "READONLY"):
		return fmt.Errorf("the client is connected to a replica, as during a failover; with Sentinel set "+
			"SentinelOption.TopologyRefreshInterval: %w", err)
	case strings.HasPrefix(text, "NOPERM"), strings.Contains(text, "The user executing the script can't"),
		strings.Contains(text, "ACL failure in script"):
		return fmt.Errorf("the user may not do this; see the rights in the documentation of redisstore: %w", err)
	case strings.HasPrefix(text, "MISCONF"):
		return fmt.Errorf("the server cannot write to its disk: %w", err)
	case strings.HasPrefix(text, "NOREPLICAS"):
		return fmt.Errorf("fewer replicas are connected than min-replicas-to-write asks for: %w", err)
	}
	return err
}
