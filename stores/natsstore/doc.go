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
// [CreateBucket] makes a bucket with the configuration that the Store needs. New returns [ErrNoBucket] if there is
// none, and [ErrUnsafeBucket] if it is configured so that it would break a promise. Clocks of servers that replicate a
// bucket must agree within [Options.ClockTolerance]. All options have defaults. docs/store-nats.md is the page to read
// before production.
//
// # Before you deploy
//
// Reads are answered by the leader. Buckets that nats.go creates allow direct gets, which any replica answers, with
// what it had some time ago. New refuses them, and CreateBucket makes a bucket without.
//
// Expiry. Each entry has a TTL, an hour longer than it is needed, by which the servers delete it. It is garbage
// collection only: no call relies on it. There is nothing to sweep.
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
// With sync_interval: always a claim waits for the disk: see design.md for what that costs. Clients cannot read this
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
// Earlier records of a key that are kept for Retention.Audit are in the key's entry too, and each write of the key
// sends them. As many are kept as fit into half a message, and the newest in any case: of a key that is used again and
// again, the oldest are dropped before their window has passed.
//
// List and Stats read the whole bucket, for each page: it has no index. Walk reads it once for all records.
//
// design.md in the folder of this package says how it works, why it is built so, and what its files are.
package natsstore
