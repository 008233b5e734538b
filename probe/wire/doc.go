// Package wire is an HTTP/1.1 client that shows what is on the wire. Each request has a connection of its own and is
// sent exactly once: net/http would retry a request that has an idempotency key, normalize header lines and hide how
// an answer is framed.
//
//   - request.go: Request, the bytes that are sent
//   - answer.go: Answer, what came back, and how it is read
//   - client.go: Client, which opens connections to one target
//   - conn.go: Conn, one connection, which can be written and read piece by piece
//   - burst.go, http2.go, gate.go: many requests at once, on a connection each or as streams of one
package wire
