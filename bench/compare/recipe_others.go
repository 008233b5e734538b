package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// messagesRecipe is for a service that only publishes messages: nothing is slow, refused or large.
func messagesRecipe(r *probe.Recipe, _ string) {
	r.Retention = 2 * time.Minute // JetStream's default window of deduplication
	r.Variants = probe.Variants{Other: r.Variants.Other, Invalid: r.Variants.Invalid, Read: r.Variants.Read}
}

// asks changes the recipe to the subject's own requests, instead of those of the orders API.
func asks(r *probe.Recipe, request *probe.Template, identity string) {
	r.Request, r.Identity = *request, probe.Identity{Pointer: identity}
	r.A, r.B, r.Revoked, r.Variants = nil, nil, nil, probe.Variants{}
}

// request is a POST with these headers, each a name and a value.
func request(path, body string, headers ...[2]string) *probe.Template {
	t := &probe.Template{Path: path, Body: body, Header: []wire.HeaderLine{{Name: "Content-Type", Value: "application/json"}}}
	for _, h := range headers {
		t.Header = append(t.Header, wire.HeaderLine{Name: h[0], Value: h[1]})
	}
	return t
}

// fifoRecipe sends messages by SQS's own protocol.
func fifoRecipe(r *probe.Recipe, _ string) {
	r.KeyBody = "/MessageDeduplicationId"
	t := request("/", fmt.Sprintf(`{"QueueUrl": "http://%s/000000000000/orders.fifo", "MessageGroupId": "orders", `+
		`"MessageBody": "{{amount}} {{uuid}}"}`, r.Target.Host), [2]string{"X-Amz-Target", "AmazonSQS.SendMessage"})
	t.Header[0].Value = "application/x-amz-json-1.0"
	asks(r, t, "/MessageId")
	r.Retention = 5 * time.Minute
}

// centrifugoKey is what its API asks for.
const centrifugoKey = "probe"

// centrifugoArguments start it with an HTTP API and a history of all channels.
func centrifugoArguments(r role) []string {
	host, port, _ := net.SplitHostPort(r.address)
	config := map[string]any{
		"http_server": map[string]any{"address": host, "port": port},
		"http_api":    map[string]any{"key": centrifugoKey},
		"channel": map[string]any{"without_namespace": map[string]any{
			"history_size": 100_000, "history_ttl": "1h",
		}},
	}
	file := filepath.Join(r.dir, "config.json")
	text, err := json.Marshal(config)
	if err == nil {
		err = writeFile(file, string(text))
	}
	if err != nil {
		panic(err) // the folder is this program's own
	}
	return []string{"--config", file}
}

// centrifugoRecipe publishes, and takes the message's offset in the channel's history for its identity.
func centrifugoRecipe(r *probe.Recipe, _ string) {
	r.KeyBody = "/idempotency_key"
	asks(r, request("/api/publish", `{"channel": "orders", "data": {"amount": {{amount}}, "note": "{{uuid}}"}}`), "/result/offset")
	r.A = []wire.HeaderLine{{Name: "X-API-Key", Value: centrifugoKey}}
	r.Revoked = []wire.HeaderLine{{Name: "X-API-Key", Value: "revoked"}}
	r.Variants.Other = request("/api/publish", `{"channel": "others", "data": {"amount": {{amount}}, "note": "{{uuid}}"}}`)
	r.Count = offsetAt("http://" + r.Target.Host + "/api/history")
	r.Retention = 5 * time.Minute
}

// offsetAt counts the messages of both channels.
type offsetAt string

// Count implements probe.Counter.
func (o offsetAt) Count(ctx context.Context) (n int64, err error) {
	for _, channel := range []string{"orders", "others"} {
		body := fmt.Sprintf(`{"channel": %q, "limit": 0}`, channel)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(o), bytes.NewBufferString(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-API-Key", centrifugoKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		var got struct{ Result struct{ Offset int64 } }
		err = json.NewDecoder(resp.Body).Decode(&got)
		resp.Body.Close()
		if err != nil {
			return 0, err
		}
		n += got.Result.Offset
	}
	return n, nil
}

// parseRecipe creates objects by Parse's REST API. The key of the application is all that a caller needs.
func parseRecipe(r *probe.Recipe, _ string) {
	in := func(class string) *probe.Template {
		return request("/parse/classes/"+class, `{"amount": {{amount}}, "note": "{{uuid}}"}`,
			[2]string{"X-Parse-Application-Id", "orders"})
	}
	asks(r, in("Order"), "/objectId")
	r.KeyHeader = "X-Parse-Request-Id"
	r.A = []wire.HeaderLine{{Name: "X-Parse-REST-API-Key", Value: "rest"}}
	r.Revoked = []wire.HeaderLine{{Name: "X-Parse-REST-API-Key", Value: "revoked"}}
	r.Variants.Other, r.Variants.Slow, r.Variants.Failing = in("Other"), in("Slow"), in("Failing")
	r.Variants.Invalid = withBody(in("Order"), `{"amount": `)
	r.Retention = 2 * time.Minute
}

func jsonServerRecipe(r *probe.Recipe, _ string) {
	other, read := r.Variants.Other, r.Variants.Read
	asks(r, post("/orders"), "/id")
	r.Variants.Other, r.Variants.Read = other, read
}

// mcpRecipe calls a tool. The protocol has no place for a key but _meta, which is the caller's.
func mcpRecipe(r *probe.Recipe, _ string) {
	a, b, revoked := r.A, r.B, r.Revoked
	asks(r, request("/mcp", `{"jsonrpc": "2.0", "id": "{{uuid}}", "method": "tools/call", "params": {"name": "create_order", `+
		`"arguments": {"amount": {{amount}}, "note": "{{uuid}}"}, "_meta": {}}}`,
		[2]string{"Accept", "application/json, text/event-stream"}), "/result/structuredContent/id")
	r.KeyBody, r.A, r.B, r.Revoked = "/params/_meta/idempotency-key", a, b, revoked
}

func stripeMockArguments(r role) []string {
	return []string{"-http-addr", r.address, "-https-addr", "127.0.0.1:0"}
}

// stripeMockRecipe creates charges. The mock keeps nothing, so effects cannot be counted.
func stripeMockRecipe(r *probe.Recipe, _ string) {
	t := request("/v1/charges", "amount={{amount}}&currency=usd&source=tok_visa&description={{uuid}}")
	t.Header[0].Value = "application/x-www-form-urlencoded"
	asks(r, t, "/id")
	r.A = []wire.HeaderLine{{Name: "Authorization", Value: "Bearer sk_test_a"}}
	r.B = []wire.HeaderLine{{Name: "Authorization", Value: "Bearer sk_test_b"}}
	r.Count = nil
}
