// Package rpcsafe is what gRPC and Connect share: where a call's key is, what its fingerprint is made of, how its answer is kept, and with
// which code and details it is refused. grpcsafe and connectsafe translate between it and their library; records made by one are replayed
// by the other.
package rpcsafe
