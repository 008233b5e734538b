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
	// why is where the time goes if a target is missed; README.md has more. Empty if none was missed so far.
	why string
}

// reason returns why a target of a goal is missed, as far as it is known.
func reason(number int) string {
	for _, g := range goals() {
		if g.number == number && g.why != "" {
			return g.why
		}
	}
	return "not known yet: profile it"
}

// goals returns all goals with their targets.
func goals() []goal {
	const writer = "the store's one writer is busy with SQLite itself: statements, pages and checkpoints"
	return []goal{
		{1, "the embedded store beside its limit, on a disk that takes 2 ms to sync", pairsGoal(disk.Slow(),
			map[int]float64{1: 0.85, 16: 0.85, 64: 0.85, 256: 0.70}), writer},
		{2, "the embedded store beside its limit, on this disk", pairsGoal(disk.AsIs(),
			map[int]float64{1: 0.65, 16: 0.55, 64: 0.40, 256: 0.22}), writer},
		{3, "sweeping", sweepGoal, "sweeps and claims take turns at the one writer"},
		{4, "a million records: reopening after SIGKILL, and memory", reopenGoal, ""},
		{
			5, "the middleware beside a bare handler, and fiber's", middlewareGoal,
			"a key has a lease, a fence and a fingerprint here, and fiber looks it up in a map",
		},
		{6, "heartbeats", heartbeatGoal, ""},
		{
			7, "the proxy beside a plain reverse proxy", proxyGoal,
			"the proxy reads a whole answer before it passes it on, so that an interrupted one is not kept, and saves it",
		},
		{
			8, "the proxy and its store beside Restate", restateGoal,
			"repetitions are on both sides of the target; a fresh request takes as much CPU for SQLite as for the proxy",
		},
		{
			9, "the PostgreSQL store beside pgbench and DBOS", pgGoal,
			"1 caller: a Go process that waits for a socket is woken on another CPU; 1024: both CPUs are busy on both sides",
		},
		{
			10, "the Redis store beside redis-benchmark and plain commands", redisGoal,
			"1 caller: the client is woken for each answer, as for a plain SET; 256: a script takes Redis's one thread ten " +
				"times as long as a plain command",
		},
		{
			12, "a claim among millions of records, each store", latencyGoal,
			"a map with millions of records does not fit the caches of the CPU",
		},
		{
			14, "completing a key inside the service's own transaction", completeGoal,
			"a function in PL/pgSQL checks the lease and writes two rows where the other side writes one",
		},
		{
			15, "relays of an outbox beside a flag and a lock", outboxGoal,
			"a lease takes two updates where a flag takes one, so that nothing is locked while a message is being sent",
		},
		{
			16, "mysqlstore beside its two plain statements", mysqlGoal,
			"a batch is five statements, each waits for the one before, and no sync runs meanwhile; on a busy machine two " +
				"connections also get less CPU than 64",
		},
		{
			17, "an inbox beside plain INSERTs and Restate", inboxGoal,
			"few callers fill few statements, and a row has five indexes and a look whether its key is free",
		},
		{
			18, "the proxy beside nginx, HAProxy and Caddy", hopsGoal,
			"Go's net/http takes more CPU for a request than they do, and both CPUs are shared with load and upstream",
		},
		{
			19, "memory: clients that wait, and the bytes of a key on disk", memoryGoal,
			"the two buffers of 4 KiB and the stack of 8 KiB that net/http has for a connection; a waiter's stack has 16 KiB",
		},
		{
			20, "a proxy that is killed and started again, a million records", restartGoal,
			"SQLite, 2 ms: a process that lives for a second seldom copies all of its write-ahead log into the file, and a " +
				"start reads it and begins to copy it anew, and waits for the disk meanwhile",
		},
	}
}
