package rpcsafe

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Call is one unary call, as an adapter hands it to a Server.
type Call struct {
	// Method is the full name, such as "/shop.v1.Payments/Create".
	Method string
	// Metadata returns the values of an entry of the call's metadata (over Connect: of a header).
	Metadata Values
	// Request is nil if it is not a protobuf message.
	Request proto.Message
	// Safe says that the method has no side effects: such a call is not guarded.
	Safe bool
}

// Reply is how a call ended.
type Reply struct {
	// Message is nil if the call failed, or if the answer is not a protobuf message.
	Message proto.Message
	// Status is that of a call that failed; nil stands for OK.
	Status *status.Status
	// Header and Trailer are the metadata sent before and after the message.
	Header, Trailer Metadata
	// Begun says of a failed call, on the client's side, that the client had received the beginning of an answer: the
	// handler may have run, whatever the code says.
	Begun bool
}

// Metadata has names in lower case. Values of names that end in "-bin" are in base64, as on the wire.
type Metadata map[string][]string

// Handle calls the handler of a call with the context of the attempt, and returns its answer.
type Handle func(ctx context.Context, r *Run) Reply

func (r *Reply) code() code.Code { return code.Code(r.Status.GetCode()) }
