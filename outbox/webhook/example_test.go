package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

// Both ends of a webhook. Only a sender that has the secret reaches the receiver's handler.
func ExampleVerify() {
	secrets, err := webhook.ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	verify := webhook.Verify(secrets, webhook.VerifyOptions{})
	receiver := httptest.NewServer(verify(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Header.Get(webhook.HeaderID), string(body))
	})))
	defer receiver.Close()

	batch := []outbox.Delivery{{Message: outbox.Message{Key: "msg_1", Body: []byte(`{"type":"order.placed"}`)}}}
	local := webhook.SinkOptions{AllowHTTP: true, AllowPrivate: true} // for this example only
	fmt.Println(webhook.NewSink(webhook.To(receiver.URL, secrets), local).Send(context.Background(), batch)[0])

	others, _ := webhook.ParseSecrets(webhook.NewSecret())
	fmt.Println(webhook.NewSink(webhook.To(receiver.URL, others), local).Send(context.Background(), batch)[0])
	// Output:
	// msg_1 {"type":"order.placed"}
	// <nil>
	// webhook: the endpoint answered 401 Unauthorized
}
