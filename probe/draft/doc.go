// Package draft makes the first recipe for the probe from what is at hand: a curl command line, an operation of an
// OpenAPI document, or what a gRPC server says of itself. It infers what it can, and its comments in the recipe say
// what was inferred.
//
//   - draft.go: Draft, the recipe to be; yaml.go and calls.go write it
//   - curl.go, body.go, shell.go: curl command lines. Words are split by mvdan.cc/sh.
//   - openapi.go, operation.go, schema.go, generators.go: OpenAPI documents
//   - steps.go, routes.go: what a request needs from another one, and several requests
//   - grpc.go, message.go, values.go, identity.go, annotations.go: the descriptors of a gRPC server
//
// OpenAPI documents are read by this package and not by a library, although $ref and allOf are work: a test found
// that kin-openapi rounds large numbers, so that an account number in the drafted body becomes another one, and that
// libopenapi loses operations.
package draft
