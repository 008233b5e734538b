// Package httpclient makes HTTP requests safe to retry: a Transport puts one key on each intent, sends the request as
// often as it takes, and stops when the answer is final or the outcome can no longer be known.
//
// The rules are those of package client. What is here is what HTTP adds: options (options.go), the round tripper
// (transport.go, call.go), where a profile has its keys (key.go), one attempt (send.go), the table of signals, which
// docs/client.md explains (signals.go), Client with its Resume (client.go), profiles from what the probe has seen
// (observed.go), and [SendOnce] (once.go).
//
// # Design
//
//   - Signals are a table; the first row that fits a reply decides. docs/client.md explains each row, and a test finds
//     a row that is missing there.
//   - The proxy and the client share SendOnce: only the code that counts attempts may make them.
package httpclient
