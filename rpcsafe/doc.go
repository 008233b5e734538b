// Package rpcsafe is what gRPC and Connect share: the options of a server, how a call's key, scope and fingerprint
// are found, how its answer is stored and replayed, and with which code and details a call is refused. The packages
// grpcsafe and connectsafe translate between it and their library; a record that one of them has made is replayed by
// the other.
//
// Services import this package for [Options] and for what a handler says about its own call: [SetReply], [Release]
// and [Unknown]. An adapter for another RPC library hands each unary call to [Server.Serve].
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	options := rpcsafe.Options{Required: rpcsafe.Methods{"shop.v1.Payments/*"}}
//	server := grpc.NewServer(grpc.UnaryInterceptor(
//		grpcsafe.UnaryServerInterceptor(guard, grpcsafe.ScopeMTLS(), options)))
//
// NewServer and NewClient panic if the options are not valid; Options.Validate returns the same as an error.
// docs/grpc.md has the codes of all answers.
//
// design.md in the folder of this package says why it is built so and what its files are.
package rpcsafe
