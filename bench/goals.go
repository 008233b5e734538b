package main

import (
	"context"

	"github.com/retrysafe/retrysafe/bench/disk"
)

// goal is one of the performance goals of the project.
type goal struct {
	number  int
	title   string
	measure func(context.Context, *run) error
}

// goals returns all goals with their targets.
func goals() []goal {
	return []goal{
		{1, "the embedded store beside its limit, on a disk that takes 2 ms to sync", pairsGoal(disk.Slow(),
			map[int]float64{1: 0.85, 16: 0.85, 64: 0.85, 256: 0.70})},
		{2, "the embedded store beside its limit, on this disk", pairsGoal(disk.AsIs(),
			map[int]float64{1: 0.65, 16: 0.55, 64: 0.40, 256: 0.22})},
		{3, "sweeping", sweepGoal},
		{4, "a million records: reopening after SIGKILL, and memory", reopenGoal},
		{5, "the middleware beside a bare handler, and fiber's", middlewareGoal},
		{6, "heartbeats", heartbeatGoal},
		{7, "the proxy beside a plain reverse proxy", proxyGoal},
		{8, "the proxy and its store beside Restate", restateGoal},
		{9, "the PostgreSQL store beside pgbench and DBOS", pgGoal},
		{10, "the Redis store beside redis-benchmark and three unsafe commands", redisGoal},
		{12, "a claim among millions of records, each store", latencyGoal},
		{14, "completing a key inside the service's own transaction", completeGoal},
		{15, "relays of an outbox beside a flag and a lock", outboxGoal},
		{16, "mysqlstore beside its two plain statements", mysqlGoal},
		{17, "an inbox beside plain INSERTs and Restate", inboxGoal},
	}
}
