// Package rpcsafe is what gRPC and Connect share: the options of a server, how a call's key, scope and fingerprint
// are found, how its answer is stored and replayed, and with which code and details a call is refused. The packages
// grpcsafe and connectsafe translate between it and their library; a record that one of them has made is replayed by
// the other.
//
// Services import this package for [Options] and for what a handler says about its own call: [SetReply], [Release]
// and [Unknown]. An adapter for another RPC library hands each unary call to [Server.Serve].
//
// Server:
//
//   - options.go, methods.go: Options and their defaults
//   - server.go: a call's key, scope and quota
//   - fingerprint.go, field.go: what makes two requests different
//   - exchange.go: the call on its way through the Guard
//   - run.go: one run of a handler, and what it says about its outcome
//   - classes.go: what an answer's code means for the key
//   - record.go, exact.go: what is stored, and how the same bytes are sent again
//   - refusal.go: how the situations of the root are rendered: codes, reasons, details
//
// Client, which translates for the engine of package client:
//
//   - client.go: ClientOptions, Client, and Resume for calls of a journal
//   - outgoing.go: one call: where its key is, one attempt
//   - signals.go: what a failed reply means, the table of docs/grpc.md
//
// # Design
//
//   - One core, two translations. This package decides; grpcsafe and connectsafe translate what goes in and what comes
//     out into their library's types. It is a module of its own because of protobuf.
//   - A record belongs to neither library. It holds the code, the bytes of the message or of the google.rpc.Status, and
//     metadata as on the wire: one library replays what the other has recorded.
//   - Exact bytes. A message is returned in its own type if it has only one encoding. If it has maps, or fields that
//     the program does not know, it is returned as a message with its content and its exact bytes (exact.go).
//   - Refusals have no header. A header commits a call, and gRPC retries it no more. connect-go flushes a header before
//     an error's trailers; connectsafe.TrailersOnly holds that flush back and makes the trailers the header, with which
//     net/http then ends the stream.
//   - A handler has a stream of its own that holds its header back, so that what grpc-go does only with its own stream
//     (choosing a compressor) fails inside.
package rpcsafe
