// Package natsstore keeps records in a key-value bucket of NATS JetStream, for any number of processes at once. Claims
// and completions are decided by compare-and-set. It needs nats-server 2.11 or newer, for the TTL of each entry; its
// tests run 2.15.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//	js, err := jetstream.New(conn)
//	if err != nil {
//		return err
//	}
//	if err := natsstore.CreateBucket(ctx, js, natsstore.BucketOptions{Replicas: 3}); err != nil {
//		return err
//	}
//	store, err := natsstore.New(ctx, js, natsstore.Options{})
//	if err != nil {
//		return err
//	}
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # How it works
//
// The entry. All that is kept of a key is one packed value in one entry of the bucket: the record, its steps, its
// answer, and ended records that people may still read. The name of the entry is the digest of the key. What does not
// fit into a message (max_payload, 1 MiB by default) is stored in parts, before the entry that refers to them.
//
// Compare-and-set. A call reads the entry, decides in this process what becomes of it, and writes the next version on
// condition that the entry still is the version that was read (Nats-Expected-Last-Subject-Sequence). If it is not,
// the call begins again. A claim of a new key, and the next call of the attempt that has it, need no read: they write
// what they expect to be right, and read only if the server refuses. So a claim and its completion are two round trips.
//
// Lost answers. A call that gets no answer within two seconds is tried again until Options.Timeout, through the
// election of a new leader too. It then finds what its first try has written, by the owner and the fence in the record.
//
// The clock is the server's. JetStream compares no times when it writes, but it gives each entry the time at which it
// was stored. So a lease is written as a duration, which counts from that time: the writer's clock does not matter, not
// even if its machine was suspended. Whether a lease is over is judged by the reader. It estimates the server's time
// from an answer a few seconds old and its monotonic clock, and may say by that estimate that a lease still runs.
// Before it says that a lease or a retention is over, it asks the server for the time (STREAM.INFO). The wall clock of
// a client may be wrong by hours. Clocks of servers that replicate a bucket must agree within Options.ClockTolerance.
//
// Reads are answered by the leader. Buckets that nats.go creates allow direct gets, which any replica answers, with
// what it had some time ago. New refuses them, and CreateBucket makes a bucket without.
//
// Fences are the server's clock in microseconds, or one more than the last one of the key. The entry of a key that was
// released or has expired stays for an hour, so that its fences grow.
//
// Expiry. Each entry has a TTL, an hour longer than it is needed, by which the servers delete it. It is garbage
// collection only: no call relies on it. There is nothing to sweep.
//
// Waiting. The server that leads the stream sends the headers of each stored record to a subject of the key
// (republish). Watch subscribes to it and wakes for versions that end an attempt.
//
// # What it does not promise
//
// JetStream acknowledges a write before it is synced to disk, unless the server's configuration says sync_interval:
// always. The default is two minutes. Then:
//
//   - One server: a power failure, or a crash of the operating system, loses acknowledged claims and completions of up
//     to two minutes. Their work may run again. A server process that is killed loses nothing.
//   - Three servers: the same happens if a majority loses its power at once. Jepsen has shown for 2.12.1 that one
//     server that loses power is enough, if another one lags behind at that time:
//     https://jepsen.io/analyses/nats-2.12.1
//
// With sync_interval: always a claim waits for the disk: see Design for what that costs. Clients cannot read this
// setting, so that Risks always names it.
//
// A leader that was cut off from the other servers answers reads for up to ten seconds more, with what it had then. No
// claim, heartbeat, completion or release is acknowledged by it, because it cannot store any, and so no work runs
// twice. A claim behind it may still be told "in flight" of a key that has been completed or released since, or get an
// answer that was purged since. It is not told "abandoned": before it says that, a Store on a replicated bucket writes
// the entry again.
//
// A notice for waiters may be lost while the leader changes. A Guard that waits asks every two seconds too.
//
// List and Stats read the whole bucket, for each page: it has no index. Walk reads it once for all records.
//
// # Where things are
//
//   - store.go: Options, New. bucket.go: CreateBucket, and which configurations are refused. risks.go: Risks.
//   - claim.go, lease.go: the five methods. update.go: read, decide, write, and again.
//   - entry.go: what is kept of a key. codec.go: how it is packed. What a record means is in internal/storekit.
//   - room.go: the space that is kept for keys that were accepted.
//   - bucketio.go: reading and writing entries and their parts. leases.go: the entries that this process wrote last.
//   - clock.go: the server's clock. errors.go: the errors, and which of them pass.
//   - watch.go, inspect.go, purge.go: Watcher, Inspector, Purger.
//
// # Design
//
//   - One entry for a key, and not one for each step: one compare-and-set then decides everything, and a reader sees
//     one version. The price is that a checkpoint or a heartbeat writes the whole entry again. A record takes about 600
//     bytes with an answer of 300.
//   - The bucket keeps one version of each entry. With more, an older version would come back when the TTL of the
//     newest has passed, and Purge would leave the answer in the history.
//   - Instants relative to the time of storing, because no other time is known exactly. A clock that clients estimate
//     and write down would end leases early on a machine that was suspended.
//   - When a lease that runs ends is not known to the process that wrote it, only to readers. A checkpoint leaves that
//     end as it is, and so it reads once before it writes.
//   - Notices by republish instead of a watcher of the bucket: a subscription costs the server next to nothing, a
//     watcher is a consumer with its own state, and a watcher of the whole bucket would send each write to each
//     process.
//   - What sync_interval: always costs depends on the number of servers. On a busy machine with two cores, one server
//     made 5,200 pairs of a claim and a completion per second for 64 callers, and 91 with it, because it syncs each
//     message by itself. Three servers sync what they replicate in batches: 3,000 pairs without it and 1,300 with it,
//     and for 256 callers 4,300 and 3,300. BenchmarkPairs measures it.
package natsstore
