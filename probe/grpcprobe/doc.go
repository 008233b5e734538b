// Package grpcprobe plays the probe's cases over gRPC, against servers that offer reflection. Like package probe it
// sees only what is on the wire: calls are made from JSON with the descriptors that the server hands out, nothing is
// generated.
//
//	report, err := grpcprobe.Run(ctx, recipe, probe.Options{})
//
// The report has the form of package probe's. A status of HTTP in it is the one that google/rpc/code.proto gives for
// the code.
//
// No call is made twice behind the probe's back: see attempt.
package grpcprobe
