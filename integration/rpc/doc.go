// Package rpc tests grpcsafe and connectsafe together with other packages: the probe against both, servers that share
// a database and are killed, transactions, and records of one adapter that the other replays.
package rpc
