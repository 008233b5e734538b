// Package httpclient makes HTTP requests safe to retry: a Transport puts one key on each intent, sends the request as often
// as it takes, and stops when the answer is final or the outcome can no longer be known.
//
// The rules are those of package client. What is here is what HTTP adds: options (options.go), the round tripper
// (transport.go, call.go), where a profile has its keys (key.go), one attempt (send.go), the table of signals, which
// docs/client.md explains (signals.go), Client with its Resume (client.go), profiles from what the probe has seen
// (observed.go), and SendOnce (once.go).
package httpclient
