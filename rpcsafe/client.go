package rpcsafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// ClientOptions of the client interceptors of grpcsafe and connectsafe. ClientOptions{} works: a random key for each
// call, four attempts, no journal.
type ClientOptions struct {
	// Options are those of all transports: attempts, waits, horizon, budget, journal, observer. A server's pushback or
	// RetryInfo is obeyed instead of Backoff. Retries by a gRPC channel's service config count as one attempt.
	client.Options
	// KeyHeader is the metadata entry (over Connect: the header) that carries the key. Default "idempotency-key".
	KeyHeader string
	// KeyField is a string field of the request that carries the key instead, in requests that have it, see
	// Options.KeyField. Default: none.
	KeyField string
	// Methods that get a key: those that the server guards. Default: all but those with idempotency_level =
	// NO_SIDE_EFFECTS. Others are sent once.
	Methods Methods
	// Marker of replays, and Domain of refusals, as the server has them, see Options. Default: the server's defaults.
	Marker, Domain string
}

func (o ClientOptions) withDefaults() ClientOptions {
	o.Retention = cmp.Or(o.Retention, retrysafe.DefaultRetention)
	o.Options = o.WithDefaults()
	o.KeyHeader = strings.ToLower(cmp.Or(o.KeyHeader, defaultKeyHeader))
	o.Marker = strings.ToLower(cmp.Or(o.Marker, defaultMarker))
	o.Domain = cmp.Or(o.Domain, defaultDomain)
	if o.Methods == nil {
		o.Methods = Methods{"*"}
	}
	return o
}

// Validate returns all faults of the options as one error, nil if there are none.
func (o ClientOptions) Validate() error {
	o = o.withDefaults()
	server := Options{KeyHeader: o.KeyHeader, KeyField: o.KeyField, Methods: o.Methods, Marker: o.Marker}
	return errors.Join(o.Options.Validate(), server.Validate())
}

// Client makes unary calls safe to retry, for an adapter: it gives each call a key and says what replies mean. The
// rules are those of package client.
type Client struct {
	o          ClientOptions
	header, id keytext.Syntax
	engine     *client.Engine
}

// NewClient returns a Client. It panics if o.Validate returns an error.
func NewClient(o ClientOptions) *Client {
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	o = o.withDefaults()
	as := Options{KeyField: o.KeyField}
	return &Client{o: o, header: as.headerSyntax(), id: as.fieldSyntax(), engine: client.NewEngine(o.Options)}
}

// KeyHeader returns the name of the metadata entry that carries keys, in lower case.
func (c *Client) KeyHeader() string { return c.o.KeyHeader }

// Gives reports whether calls of a method get a key. safe says that the method has no side effects.
func (c *Client) Gives(method string, safe bool) bool {
	return !safe && !isPlumbing(method) && c.o.Methods.have(method)
}

// Outgoing is one unary call of a client, as an adapter hands it to a Client.
type Outgoing struct {
	// Method is the full name, such as "/shop.v1.Payments/Create".
	Method string
	// Target is the server: a gRPC channel's target, or the host of a Connect client's URL.
	Target string
	// Metadata is what the caller has set: the key, if there is one, and what the journal keeps.
	Metadata Metadata
	// Request is nil if it is not a protobuf message.
	Request proto.Message
}

// Send makes one attempt at a call: it sends the request, with the key as metadata if key is not empty. The error is
// what the caller gets if the call has failed.
type Send func(ctx context.Context, request proto.Message, key string) (Reply, error)

// Call makes attempts until the outcome is known, or none is left. The request is copied before the first attempt.
//
// Errors are those of the last attempt, or one that is client.ErrOutcomeUnknown, client.ErrNotReplayable,
// client.ErrKeyRequired, client.ErrUnnamedCall or retrysafe.ErrMismatch.
func (c *Client) Call(ctx context.Context, o Outgoing, send Send) error {
	x := &exchangeOut{c: c, call: o, send: send}
	digest := retrysafe.NaturalID(o.Method)
	if o.Request != nil {
		x.request = proto.Clone(o.Request)
		digest = retrysafe.NaturalID(o.Method, deterministic(x.request))
	}
	return c.engine.Call(ctx, client.Request{
		Method: o.Method, Origin: o.Target, Name: "CALL " + o.Method,
		Digest: digest,
	}, x)
}

// Resumed is a call of the journal that was made again, and what came of it. Response is nil if Err is not.
type Resumed = client.Resumed[proto.Message]

// Invoke makes a call for Resume: it sends in with the metadata given, through the adapter's interceptor, and fills
// out.
type Invoke func(ctx context.Context, method string, in, out proto.Message, md Metadata) error

// Resume makes the calls to a target again that the journal has pending, see grpcsafe.Client.Resume. Types of messages
// that are linked into the program are used; a method whose descriptor is not is an error in Resumed.
func (c *Client) Resume(ctx context.Context, target string, invoke Invoke,
	result func(ctx context.Context, r Resumed) error,
) error {
	origin := func(e client.Entry) string {
		if !strings.HasPrefix(e.Method, "/") || e.URL != target {
			return ""
		}
		return target
	}
	return client.Resume(ctx, c.engine, origin, func(ctx context.Context, e client.Entry) (proto.Message, error) {
		method, err := methodNamed(e.Method)
		if err != nil {
			return nil, fmt.Errorf("rpcsafe: %v: %w", e, err)
		}
		in, out := newMessage(method.Input()), newMessage(method.Output())
		if err := proto.Unmarshal(e.Body, in); err != nil {
			return nil, fmt.Errorf("rpcsafe: %v: %w", e, err)
		}
		if err := invoke(ctx, e.Method, in, out, Metadata(e.Header)); err != nil {
			return nil, err
		}
		return out, nil
	}, result)
}

// methodNamed returns a method that is linked into this program, by its full name.
func methodNamed(name string) (protoreflect.MethodDescriptor, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(
		protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
	if err != nil {
		return nil, err
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is not a method", name)
	}
	return method, nil
}

// newMessage returns an empty message, of its generated type if that is linked into this program.
func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	if t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName()); err == nil {
		return t.New().Interface()
	}
	return dynamicpb.NewMessage(d)
}
