package grpcprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// client calls one server. Each call has a connection of its own, so that nothing in between makes it twice.
type client struct {
	target  string
	options []grpc.DialOption
	schema  *schema

	mu    sync.Mutex
	ready []*grpc.ClientConn // for calls that are to be made at once
}

// maxAnswer bounds what is read of a response.
const maxAnswer = 64 << 20

// newClient returns a client for the recipe's server. It connects with the first call.
func newClient(r *Recipe) *client {
	secure := insecure.NewCredentials()
	if r.TLS != nil {
		secure = credentials.NewTLS(r.TLS)
	}
	return &client{target: r.Target, options: []grpc.DialOption{
		grpc.WithTransportCredentials(secure), grpc.WithStatsHandler(watch{}), grpc.WithContextDialer(dial),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}}
}

// dial connects directly to the server, whatever proxies the environment names. A proxy may retry, which would hide
// what the server does.
func dial(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// connect returns a new connection. The options of newClient switch off retries and service configuration, so that each
// call is made once.
func (c *client) connect() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+c.target, c.options...)
}

// lookUp reads from the server, by reflection, what the recipe's calls look like.
func (c *client) lookUp(ctx context.Context, calls []probe.Template, as []wire.HeaderLine) error {
	var paths, services []string
	for _, t := range calls {
		service, _, err := serviceOf(t.Path)
		if err != nil {
			return wrong{err}
		}
		paths, services = append(paths, t.Path), append(services, service)
	}
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	files, err := describe(outgoing(ctx, as), conn, services)
	if err != nil {
		return err
	}
	if c.schema, err = newSchema(files, paths); err != nil {
		return wrong{err}
	}
	return nil
}

// call is a call that can be made: its message is JSON, its method begins with a slash.
type call struct {
	path     string
	metadata []wire.HeaderLine
	message  []byte
}

// as returns the call as another caller. The lines replace those of the same names.
func (c call) as(lines ...wire.HeaderLine) call {
	c.metadata = slices.DeleteFunc(slices.Clone(c.metadata), func(h wire.HeaderLine) bool {
		return slices.ContainsFunc(lines, func(l wire.HeaderLine) bool { return strings.EqualFold(l.Name, h.Name) })
	})
	c.metadata = append(c.metadata, lines...)
	return c
}

// do makes a call once and waits for its end.
func (c *client) do(ctx context.Context, q call) reply {
	sent := time.Now()
	conn, raw, err := c.prepare(q)
	if err != nil {
		return reply{err: err, sentAt: sent, endedAt: time.Now()}
	}
	defer func() { _ = conn.Close() }()
	var header, trailer metadata.MD
	var response []byte
	one := &attempt{}
	sent = time.Now()
	err = conn.Invoke(one.in(outgoing(ctx, q.metadata)), q.path, raw, &response,
		grpc.Header(&header), grpc.Trailer(&trailer), grpc.PerRPCCredentials(one), grpc.ForceCodec(asTheyAre{}))
	a := c.reply(q.path, response, err, header, trailer)
	if err != nil && !one.answered.Load() {
		a = reply{err: one.explain(err)}
	}
	a.sentAt, a.endedAt = sent, time.Now()
	return a
}

// prepare returns the encoded request of a call and a connection for it: one that makeReady has opened, if there is
// any, or a new one.
func (c *client) prepare(q call) (*grpc.ClientConn, []byte, error) {
	raw, err := c.schema.marshal(q)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.ready); n > 0 {
		conn := c.ready[n-1]
		c.ready = c.ready[:n-1]
		return conn, raw, nil
	}
	conn, err := c.connect()
	return conn, raw, err
}

// dialers is how many connections are opened at the same time: a server's queue of connections may be short.
const dialers = 16

// makeReady opens connections for the next n calls, and returns when all can be used at once.
func (c *client) makeReady(ctx context.Context, n int) error {
	failures := make([]error, n)
	turn := make(chan struct{}, dialers)
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			failures[i] = c.addReady(ctx)
		})
	}
	done.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// addReady opens one more connection and waits until it is ready, so that calls at once do not wait for handshakes.
func (c *client) addReady(ctx context.Context) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		conn.Connect() // also after a failure: a server may be slow to accept as many
		if !conn.WaitForStateChange(ctx, state) {
			return errors.Join(fmt.Errorf("no connection to %s: %w", c.target, ctx.Err()), conn.Close())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, conn)
	return nil
}

// close ends connections that no call has used.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.ready {
		_ = conn.Close()
	}
	c.ready = nil
}

// outgoing returns a context with that metadata.
func outgoing(ctx context.Context, lines []wire.HeaderLine) context.Context {
	for _, l := range lines {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(l.Name), l.Value)
	}
	return ctx
}

// asTheyAre is a codec for messages that are bytes already.
type asTheyAre struct{}

// Marshal implements encoding.Codec.
func (asTheyAre) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

// Unmarshal implements encoding.Codec.
func (asTheyAre) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}

// Name implements encoding.Codec. Calls have the content type that has no suffix, as most clients' calls do.
func (asTheyAre) Name() string { return "" }
