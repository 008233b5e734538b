// Package redisstore keeps records in Redis 7 or Valkey, alone, in a Cluster or behind Sentinel, for any number of
// processes at once. Each call is one script and one round trip. Its tests run Redis 7.0 and Valkey 8.0.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	store, err := redisstore.New(ctx, client, redisstore.Options{})
//	if err != nil {
//		return err
//	}
//	risks, err := store.Risks(ctx) // what the server's settings may lose: log it
//	guard := retrysafe.New(store, retrysafe.Options{})
//
// # How it works
//
// The records. A record is one string: a packed header of 97 bytes, the fingerprint, the key, the steps and the answer.
// Its key in Redis is the prefix and the digest, as in retrysafe:{f0e1…}: the digest that logs show. The braces are the
// hash tag of a Cluster. A record whose key was claimed again while people may still read it moves to a list next to
// the new one, retrysafe:{f0e1…}:older.
//
// The scripts. Each method is one Lua script that names one key, so that it is atomic, and so that a Cluster runs it
// also while it moves the key's slot. Calls that need the older records name the list too, and wait while the two keys
// are on different servers: Inspect, Purge, and a claim that moves a record there, which takes a second round trip. A
// claim of a key that has ended or is in flight writes nothing, and waits for no disk, unless calls wait for replicas.
// Heartbeats and steps change
// their part of the record in place; the answer is written once.
//
// The clock is the server's (TIME). Leases and windows are compared with it inside the scripts. Fences are its
// microseconds, or one more than the last fence of the key. The last instant is in the year 2255, because numbers of
// Lua have 53 bits.
//
// Expiry. Redis deletes a record ten minutes after the last moment at which it may be read (PEXPIREAT), and never
// before: every call that moves a deadline moves the expiry in the same script. Deletion is garbage collection. No
// answer depends on it, and no Sweep is needed. What stays for ten minutes, also of a key that was released, is the
// fence: it grows although the server's clock is set back by less than that, or a replica with a slower clock takes
// over.
//
// Waiting. A caller of Watch subscribes to the record's key as a channel (SSUBSCRIBE), and marks the record. Only the
// end of a marked attempt is published (SPUBLISH); the usual completion pays nothing. A key that does not exist yet is
// marked for an hour. A subscription that breaks, or whose slot moves, is made again, and wakes its watches.
//
// Repeating. All methods may be repeated, and so a call is sent again after a broken connection, and while the server
// reads its files or its cluster is down, until the context ends. The first copy of such a call may arrive late. Fences
// guard against that, except for a claim, which could take the key after the second copy's attempt has released it. So
// Claim.Doubted says that it was sent again, and a Guard undoes what arrives late. Options.Timeout bounds calls whose
// context has no deadline.
//
// Memory. A record of a small JSON API takes about 410 bytes (MEMORY USAGE): 97 of the header, those of its content,
// and about 120 of Redis. A server that has reached maxmemory refuses new keys with retrysafe.ErrStoreFull. It goes on
// to answer keys that are there, and serves attempts that it has accepted: claims again, take-overs, heartbeats, steps,
// completions and releases. They take memory beyond maxmemory, for which the machine needs room.
//
// Roles. A user needs these rights, with the prefix in place of retrysafe: and without the last four on a server that
// is neither a cluster nor waits for replicas: ~retrysafe:* &retrysafe:* +evalsha +eval +time +get +set +getrange
// +setrange +append +pexpireat +pexpiretime +lpush +lrange +lset +lindex +rpop +spublish +ssubscribe +sunsubscribe
// +scan +memory|usage +info +config|get +ping +wait +role +cluster|slots +asking. Without +info and +config|get the store
// works and reports that it cannot know its risks.
//
// # What it does not promise
//
// Redis acknowledges what its settings allow it to lose. Store.Risks reads them and names each:
//
//   - With appendonly no, a restart loses everything since the last dump. With appendfsync everysec or no, a crash of
//     the machine loses the last seconds. With appendonly yes and appendfsync always, a crash loses nothing.
//   - Replication is asynchronous. A replica that takes over has not got the last claims, and the work of their keys
//     runs again. Options.WaitReplicas (WAIT) narrows this and does not close it: neither Sentinel nor Cluster is
//     certain to promote a replica that has confirmed. While a master that was cut off does not know it yet, two
//     masters take claims; min-replicas-to-write bounds that time. Work that must not run twice after a failover
//     belongs on another store.
//   - With a maxmemory-policy other than noeviction Redis deletes claims to make room. New refuses such a server,
//     unless Options.AllowEviction is set.
//
// FLUSHALL, DEL by hand, and a dump that is restored forget claims as well.
//
// # Where things are
//
//   - store.go: Options, New. errors.go: the errors, and what to do about those of the server.
//   - claim.go, lease.go: the five methods. scripts.go, lua/: the scripts, and how they are sent.
//   - record.go: the layout of a record. What it means is in internal/storekit.
//   - replicas.go: calls that wait for replicas.
//   - watch.go: Watch. inspect.go, scan.go: Inspect, List, Walk, Stats. purge.go: Purge.
//   - masters.go, risks.go: what servers say of their settings.
//
// # Design
//
//   - One string instead of a hash: a hash for each record took 1.2 to 1.35 times the time and 579 to 838 bytes. Lua
//     unpacks the few numbers that it compares, and joins the rest as it is.
//   - One key for each record, with the steps and the answer in it: with several keys a Cluster that moves a slot
//     answers TRYAGAIN until it has moved all of them, and a record could be seen without its steps. The list of
//     older records is apart, because it takes no part in claims and is rarely there. The price is that an answer
//     stays in memory as long as its key is taken, also after Replay and Audit have passed.
//   - Hex digests in the names of keys cost 16 bytes a record more than base64, and can be pasted from a log.
//   - claim.lua begins without the shebang that the other scripts have. With it, a full server would refuse the whole
//     script, and no ended key could be answered, or accept it, and take new keys. Without it, a full server refuses
//     SET unless the script has written before, as it does for keys that are there.
//   - Watches have a channel for each key rather than one for all: a process gets no message about keys that it does
//     not wait for. Sharded channels, which reach only the shard that has the key, need Redis 7.
//   - WAIT runs on a connection of its own, because it holds up what follows on the same connection. Every call writes
//     before it: an answer must not rest on another caller's write that may still be lost, and since Redis 7.2 WAIT
//     waits for the last write of its connection only.
//   - List and Stats read every key. An index by time would be written by every claim, and in a Cluster it would be in
//     another slot than the record.
package redisstore
