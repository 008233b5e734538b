// Package load puts real proxy processes under mixed traffic, and looks whether what they take stays flat.
//
// Two processes of the command share a store on PostgreSQL, or have a SQLite file each, which only one process may
// open. One lives from the beginning to the end and is measured; the other one is killed again and again. Clients send
// fresh keys with retries, leave in the middle of a request and of an answer, wait for hot keys by the thousand, send
// large bodies, and are slow on purpose; meanwhile both processes reload their configuration. The API behind them
// counts the effects of each key.
//
// results.json has the samples of a run, and docs/proof-load.md and docs/pictures/load-*.svg show them:
//
//	RETRYSAFE_SOAK=240 go test -v -timeout 24h -run TestSoakMixedTraffic ./integration/load -load.write
//
// writes all three, after eight minutes.
package load
