// Package rpc shows what it takes several packages to show of grpcsafe and connectsafe: the probe against both, servers that share a
// database and are killed, transactions, and records that one of them made and the other replays.
package rpc
