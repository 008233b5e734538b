// Package recipe reads the YAML files that describe an API to the probe. It is strict: an unknown field, or one that
// this version cannot honour, is refused with its line and with what to write instead; all faults are reported at
// once.
//
//   - recipe.go: File, Load and what both protocols have; values.go reads single values
//   - setup.go, routes.go: what is sent before a request, and several requests in one recipe
//   - request.go: the requests of an HTTP API; grpc.go, calls.go: the calls of a gRPC service
//   - protocol.go: what differs between the two for the command
//   - open.go: opens what a recipe names: hooks.go runs commands, count.go chooses how effects are counted
//   - poll.go, query.go, webhook.go: effects counted by GET, by SQL, and as they arrive
package recipe
