//go:build ignore

// A service that publishes each order to a stream of NATS JetStream, with the request's key as the message's ID, as the
// documentation on deduplication shows it. An effect is a message that the stream has.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
)

func main() {
	orders.Run(func(ctx context.Context, p *orders.Program) (http.Handler, error) {
		conn, err := nats.Connect(p.Store)
		if err != nil {
			return nil, err
		}
		js, err := jetstream.New(conn)
		if err != nil {
			return nil, err
		}
		stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders"}})
		if err != nil {
			return nil, err
		}
		p.API.Counted = func() (int64, error) {
			info, err := stream.Info(ctx)
			if err != nil {
				return 0, err
			}
			return int64(info.State.Msgs), nil
		}
		return p.API.Jobs(func(ctx context.Context, key string, j orders.Job) (orders.Answer, error) {
			text, err := json.Marshal(j)
			if err != nil {
				return orders.Answer{}, err
			}
			ack, err := js.Publish(ctx, "orders", text, jetstream.WithMsgID(key))
			if err != nil {
				return orders.Answer{}, err
			}
			body := fmt.Sprintf(`{"id": "%d"}`, ack.Sequence)
			return orders.Answer{Status: http.StatusCreated, Body: []byte(body)}, nil
		}), nil
	})
}
