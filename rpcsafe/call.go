package rpcsafe

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Call is one unary call, as an adapter hands it over.
type Call struct {
	// Method is the full name: "/shop.v1.Payments/Create".
	Method string
	// Key is what the metadata entry of Server.KeyHeader holds.
	Key []string
	// Request is nil if it is no protobuf message.
	Request proto.Message
	// Safe says that the method has no side effects.
	Safe bool
}

// Reply is how a call ended.
type Reply struct {
	// Message is nil if the call failed. An adapter that was given one that is no protobuf message leaves it nil, too.
	Message proto.Message
	// Status of a call that failed; nil: OK.
	Status *status.Status
	// Header and Trailer are the metadata sent before and after the message.
	Header, Trailer Metadata
	// Begun, on the client's side, says of a failed call that an answer had begun to come in: whatever the code says, the handler may
	// have run.
	Begun bool
}

// Metadata has names in lower case. Values of names that end in "-bin" are as on the wire: in base64.
type Metadata map[string][]string

// Handle calls the handler. ctx is that of the attempt.
type Handle func(ctx context.Context, r *Run) Reply

func (r *Reply) code() code.Code { return code.Code(r.Status.GetCode()) }
