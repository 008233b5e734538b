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
// New reads the settings of the server, and refuses a server that may evict claims ([ErrEviction]) or is too old
// ([ErrVersion]). With [Options.WaitReplicas], calls return [ErrNotReplicated] if too few replicas confirm. All options
// have defaults. docs/store-redis.md is the page to read before production.
//
// # Before you deploy
//
// Memory. A record of a small JSON API takes about 410 bytes (MEMORY USAGE): 97 of the header, those of its content,
// and about 120 of Redis. With Options.Index, the index by which Find finds it takes about 230 more, and 120
// for each tag. A server that has reached maxmemory refuses new keys with retrysafe.ErrStoreFull. It
// goes on to answer keys that are there, and serves attempts that it has accepted: claims again, take-overs,
// heartbeats, steps, completions and releases. They take memory beyond maxmemory, for which the machine needs room.
//
// Roles. A user needs these rights, with the prefix in place of retrysafe: and without the last four on a server that
// is neither a cluster nor waits for replicas: ~retrysafe:* &retrysafe:* +evalsha +eval +time +get +set +getrange
// +setrange +append +pexpireat +pexpiretime +lpush +lrange +lset +lindex +rpop +spublish +ssubscribe +sunsubscribe
// +scan +memory|usage +dbsize +randomkey +zadd +zrange +zrem +zremrangebyscore +hgetall +hset +hdel +info +config|get
// +ping +wait +role +cluster|slots +asking. Without +zadd to +hdel there is no index, and there are no sightings.
// Without +info and +config|get the store works and reports that it cannot know its risks.
//
// Searches. In a Cluster the index is written after the claim, without waiting for it, and has tags and IDs only: see
// [Store.Find].
//
// # What it does not promise
//
// Redis acknowledges what its settings allow it to lose. [Store.Risks] reads them and names each:
//
//   - With appendonly no, a restart loses everything since the last dump. With appendfsync everysec or no, a crash of
//     the machine loses the last seconds. With appendonly yes and appendfsync always, a crash loses nothing.
//   - Replication is asynchronous. A replica that takes over has not got the last claims, and the work of their keys
//     runs again. Options.WaitReplicas (WAIT) narrows this and does not close it: neither Sentinel nor Cluster is
//     certain to promote a replica that has confirmed. While a master that was cut off does not know it yet, two
//     masters take claims; min-replicas-to-write bounds that time. Work that must not run twice after a failover
//     belongs on another store.
//   - With a maxmemory-policy other than noeviction Redis deletes claims to make room. New refuses such a server,
//     unless [Options.AllowEviction] is set.
//
// FLUSHALL, DEL by hand, and a dump that is restored forget claims as well.
//
// design.md in the folder of this package says how it works, why it is built so, and what its files are.
package redisstore
