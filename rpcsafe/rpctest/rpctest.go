// Package rpctest has the rules that hold for every adapter of rpcsafe, over its real servers and clients. grpcsafe and
// connectsafe run them, and keep tests only of what they translate.
package rpctest

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// Serve serves the methods Create, Change and Get of shop.v1.Things on loopback until the test ends, and returns a
// client of them. A panic that leaves the interceptor is answered with INTERNAL and its text.
type Serve func(t *testing.T, s Server) Client

// Server is what a rule wants to have served.
type Server struct {
	// Guard is nil if no interceptor guards the server.
	Guard *retrysafe.Guard
	// Scope is nil if callers are named by the metadata entry "caller".
	Scope   rpcsafe.ScopeFunc
	Options rpcsafe.Options
	Handle  func(ctx context.Context, c Call) rpcsafe.Reply
	// Client has the options of the client's interceptor; nil if it has none.
	Client *rpcsafe.ClientOptions
}

// Call is a call as a client makes it, and as a handler sees it.
type Call struct {
	// Method is the short name, such as "Create".
	Method   string
	Metadata rpcsafe.Metadata
	Request  *shoppb.CreateRequest
}

// Client makes one call. A Message in the reply is a *shoppb.Thing. The error is what the caller gets. A library that
// does not say which metadata of a failed call came before the message returns all of it as header and as trailer.
type Client func(ctx context.Context, c Call) (rpcsafe.Reply, error)

type rule struct {
	name  string
	check func(k *kit)
}

// Run checks each rule in a subtest, with a server of its own.
func Run(t *testing.T, serve Serve) {
	t.Helper()
	for _, rules := range [][]rule{keyRules, refusalRules, replayRules, outcomeRules, clientRules} {
		for _, r := range rules {
			t.Run(r.name, func(t *testing.T) { r.check(newKit(t, serve)) })
		}
	}
}
