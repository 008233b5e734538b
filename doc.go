// Package retrysafe makes operations safe to retry. A client that gets no answer sends its request again: after a
// timeout, a lost response, a crash. For one idempotency key, a Guard runs the operation at most once, and answers
// every retry with the result of that run, byte for byte.
//
//	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
//	request := retrysafe.Request{
//		Key:         retrysafe.Key{Scope: retrysafe.Scope("tenant-17"), ID: "8e03978e-40d5-43e8-bc93-6894a57f9324"},
//		Fingerprint: fingerprint.New("raw1", nil).Sum("POST", "/charges", `{"amount":4200}`),
//	}
//	receipt, err := retrysafe.Do(context.Background(), guard, request,
//		func(context.Context, *retrysafe.Attempt) (Receipt, error) {
//			return Receipt{Charge: "ch_1"}, nil
//		})
//
// The key is claimed before the work begins, in one atomic call to the Store, as a lease that heartbeats keep alive. Of
// many requests at once one runs; the others are refused or wait, as Policy says. If the process dies, the lease runs
// out and the outcome is unknown: [Policy.OnAbandoned] then refuses, runs the work again, or asks what happened. What a
// paused process writes too late is refused by its fence.
//
// # Where to find what
//
//	fingerprint         digests of requests, canonical JSON
//	httpsafe            net/http middleware; most services need only this
//	httpkey             what keys, headers and methods mean over HTTP, to servers and clients
//	client              clients that choose keys and retry; client/httpclient is the transport for net/http
//	stores/sqlitestore  records in one file; InTx commits them with the work's own rows
//	stores/pgstore      records in PostgreSQL, shared by many processes; InTx
//	stores/mysqlstore   records in MySQL or MariaDB, likewise; InTx
//	stores/redisstore   records in Redis or Valkey, alone or in a Cluster
//	stores/natsstore    records in NATS JetStream
//	stores/dynamostore  records in DynamoDB
//	stores/shardstore   several stores as one, and moves from one to another
//	stores/cryptstore   encrypts what another store keeps
//	stores/memstore     records in memory
//	stores/storetest    tests for stores of your own
//	retrysafetest       tests for handlers of your own: retried, at once, killed in between
//	caddysafe           the middleware as a module for Caddy
//	grpcsafe            interceptors for gRPC; connectsafe for Connect; rpcsafe is what they share
//	queuesafe           message consumers, with adapters to RabbitMQ, NATS, Kafka and SQS
//	outbox              messages saved with the business write and sent at least once
//	inbox               requests that are accepted once they are saved, and delivered until they are done
//	proxy               the reverse proxy, for services in any language; extproc is the same behind Envoy
//	clients             small packages for Python, Node and Java, over the SQL functions of pgstore
//	cmd/retrysafe       the command: runs the proxy, resolves keys, migrates, probes
//	probe               tests an API from the outside
//	observe/otelsafe    OpenTelemetry
//
// In this package: [New] and [Guard.Do] or [Do] run guarded work. [Step] saves the results of parts of it, and
// [ChildKey] derives keys for calls to other systems. [Terminal], [Retryable] and [Unknown] mark how work ended, and
// [Guard.Explain] says what an error of Do means for the request's sender. [Policy] and [Options] say what happens in
// each situation; [Store] is the contract of stores.
//
// # Where to read on
//
// docs/getting-started-library.md is the way in, docs/concepts.md has the words and the table of what the next request
// gets, and docs/what-it-does-not-promise.md says where the promise ends. The folder examples has programs.
package retrysafe
