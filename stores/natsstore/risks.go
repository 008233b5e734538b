package natsstore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
)

// Risks returns what endangers acknowledged claims and completions: too few replicas, records in memory, asynchronous
// persistence, replicas that are offline. The servers do not tell clients whether they sync each write to disk
// (sync_interval), so that this is always reported for records on disk, as a setting to check.
func (s *Store) Risks(ctx context.Context) ([]retrysafe.Risk, error) {
	info, err := s.clock.stream.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("natsstore: read the configuration of bucket %s: %w", s.options.Bucket, err)
	}
	return risksOf(info), nil
}

func risksOf(info *jetstream.StreamInfo) []retrysafe.Risk {
	var risks []retrysafe.Risk
	add := func(setting, loses, remedy string) {
		risks = append(risks, retrysafe.Risk{Setting: setting, Loses: loses, Remedy: remedy})
	}
	c := info.Config
	replicated := c.Replicas > 1
	switch {
	case c.AllowDirect:
		add("allow_direct: true", "Stores that are opened with it are refused.", "Switch allow_direct off.")
	case c.Discard != jetstream.DiscardNew || c.MaxAge != 0:
		add("discard: old, or max_age", "The server deletes records that are still needed, and their work runs again.",
			"Set discard to new and remove max_age.")
	}
	if !replicated {
		add("num_replicas: 1", "If the server's disk is lost, all records are lost.",
			"Use three servers and set num_replicas to 3.")
	}
	switch {
	case c.Storage == jetstream.MemoryStorage && replicated:
		add("storage: memory", "If a majority of the replicas ends at the same time, all records are lost.",
			"Create the bucket anew with file storage.")
	case c.Storage == jetstream.MemoryStorage:
		add("storage: memory", "If the server ends, all records are lost.",
			"Create the bucket anew with file storage.")
	case c.PersistMode == jetstream.AsyncPersistMode:
		add("persist_mode: async", "If the server process ends, claims that it has just acknowledged are lost.",
			"Create the bucket anew with the default persist_mode.")
	case replicated:
		add("sync_interval (clients cannot read it)", "Unless it is always, a power failure of a majority of the "+
			"servers, or of one while another one lags behind, loses acknowledged claims of up to two minutes.",
			"Set sync_interval to always in the jetstream section of every server.")
	default:
		add("sync_interval (clients cannot read it)", "Unless it is always, a power failure of the server loses "+
			"acknowledged claims of up to two minutes.",
			"Set sync_interval to always in the jetstream section of the server.")
	}
	if n := offline(info.Cluster); n > 0 {
		add(fmt.Sprintf("%d of %d replicas offline", n, c.Replicas), "If more servers fail, no claim is possible, or "+
			"records are lost.", "Start the servers again.")
	}
	return risks
}

func offline(c *jetstream.ClusterInfo) (n int) {
	if c == nil {
		return 0
	}
	for _, r := range c.Replicas {
		if r.Offline {
			n++
		}
	}
	return n
}
