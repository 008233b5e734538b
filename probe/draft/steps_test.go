package draft

import (
	"strings"
	"testing"
)

const checkout = `
openapi: 3.1.0
servers: [{url: http://127.0.0.1:8080/v1}]
security: [{bearer: []}]
paths:
  /sessions:
    post:
      operationId: createSession
      parameters: [{name: idempotency_key, in: query, schema: {type: string}}]
      requestBody: {content: {application/json: {schema: {properties: {amount: {type: integer}}}}}}
      responses: {201: {content: {application/json: {schema: {properties: {session_id: {type: string}}}}}}}
  /sessions/{sessionId}/items:
    post:
      operationId: addItem
      parameters:
        - {name: sessionId, in: path, required: true, schema: {type: string}}
        - {name: idempotency_key, in: query, required: true, schema: {type: string}}
      requestBody: {content: {application/json: {example: {note: two}}}}
      responses: {201: {content: {application/json: {schema: {properties: {id: {type: string}}}}}}}
  /sessions/{sessionId}/items/{id}/discounts:
    post:
      parameters:
        - {name: sessionId, in: path, required: true, schema: {type: string}}
        - {name: id, in: path, required: true, schema: {type: string}}
  /carts:
    put:
      operationId: openCart
      responses:
        200: {links: {pay: {operationId: payCart, parameters: {cart: '$response.body#/data/number'}}}}
  /pay/{cart}:
    post:
      operationId: payCart
      parameters: [{name: cart, in: path, required: true, schema: {type: string}}]
      requestBody: {content: {application/x-www-form-urlencoded: {example: {amount: 5, clientRequestId: x}}}}
  /loop/{a}:
    post:
      operationId: loop
      parameters: [{name: a, in: path, required: true, schema: {type: string}}]
      responses: {200: {links: {again: {operationId: loop, parameters: {a: '$response.body#/id'}}}}}
  /ping/{p}:
    post:
      operationId: ping
      parameters: [{name: p, in: path, required: true, schema: {type: string}}]
      responses: {200: {links: {next: {operationId: pong, parameters: {q: '$response.body#/id'}}}}}
  /pong/{q}:
    post:
      operationId: pong
      parameters: [{name: q, in: path, required: true, schema: {type: string}}]
      responses: {200: {links: {next: {operationRef: '#/paths/~1ping~1{p}/post', parameters: {p: '$response.body#/id'}}}}}
components: {securitySchemes: {bearer: {type: http, scheme: bearer}}}
`

func draftedFrom(t *testing.T, operations ...string) string {
	t.Helper()
	d, err := FromOpenAPIRoutes([]byte(checkout), operations)
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A path parameter that another operation creates becomes a step, by the path and by OpenAPI links. Seen to fail with
// above, with linked and with preparing taken out of prepare.
func TestSteps(t *testing.T) {
	t.Parallel()
	wantText(t, "recipe", draftedFrom(t, "addItem"), "key_query: idempotency_key", "key_required: true", `setup:
  - method: POST
    path: /v1/sessions
    headers:
      Content-Type: application/json
    body: |-
      {
        "amount": {{amount}}
      }
    key: true   # it takes a key of its own
    save: {session_id: /session_id}
`, `path: "/v1/sessions/{{session_id}}/items"`)
	deep := draftedFrom(t, "POST /sessions/{sessionId}/items/{id}/discounts")
	if n := strings.Count(deep, "path: /v1/sessions\n"); n != 1 {
		t.Errorf("the session is created %d times:\n%s", n, deep)
	}
	wantText(t, "recipe", deep, "save: {session_id: /session_id}", `path: "/v1/sessions/{{session_id}}/items"`, "save: {item_id: /id}",
		`path: "/v1/sessions/{{session_id}}/items/{{item_id}}/discounts"`)
	linked := draftedFrom(t, "payCart")
	wantText(t, "recipe", linked, "path: /v1/carts", "save: {cart: /data/number}", `path: "/v1/pay/{{cart}}"`,
		"key_body: /clientRequestId", "    amount={{amount}}\n")
	round := draftedFrom(t, "ping")
	if n := strings.Count(round, "save: {"); n != 2 {
		t.Errorf("two operations that need each other make %d steps:\n%s", n, round)
	}
	wantText(t, "recipe", round, "path: /v1/ping/text", `path: "/v1/ping/{{p}}"`)
	wantText(t, "recipe", draftedFrom(t, "loop"), "path: /v1/loop/text", "see that it exists")
}

// Several operations become routes, which share callers and the place of the key. Seen to fail with unlike not
// comparing keyPlace.
func TestRoutesOfOpenAPI(t *testing.T) {
	t.Parallel()
	all := draftedFrom(t)
	wantText(t, "recipe", all, "- name: createSession", "- name: addItem", "key_query: idempotency_key",
		"- name: POST-sessions--sessionId--items--id--discounts", "# POST /v1/pay/{{cart}} has its key in another place",
		`Authorization: "Bearer ${PROBE_CREDENTIAL_A}"`)
	if strings.Contains(all, "name: payCart") || strings.Contains(all, "name: openCart") {
		t.Errorf("an operation with another key, or a PUT, is a route:\n%s", all)
	}
	if _, err := FromOpenAPIRoutes([]byte(checkout), []string{"addItem", "payCart"}); err == nil ||
		!strings.Contains(err.Error(), "another place") {
		t.Errorf("%v", err)
	}
}

// Keys in the body and the query of a curl command are left to the probe. Seen to fail with takeKeyParameter, with
// withoutField and with isKeyName taken out.
func TestKeysOfCurl(t *testing.T) {
	t.Parallel()
	for command, parts := range map[string][]string{
		`curl 'localhost:8080/a?idempotencyKey=x&mode=test' -d amount=5`: {
			"key_query: idempotencyKey", `path: "/a?mode=test"`,
		},
		`curl 'localhost:8080/a?idempotency_key=x' -d amount=5`:             {"key_query: idempotency_key", "path: /a\n"},
		`curl localhost:8080/a -d 'amount=5&idempotency_key=x'`:             {"key_body: /idempotency_key", "    amount={{amount}}\n"},
		`curl localhost:8080/a -d 'dedupe_key=x&amount=5'`:                  {"key_body: /dedupe_key", "    amount={{amount}}\n"},
		`curl localhost:8080/a --json '{"idempotencyKey":"x","amount":5}'`:  {"key_body: /idempotencyKey", `{"amount":{{amount}}}`},
		`curl localhost:8080/a --json '{"m":{"dedup-key":"x"},"amount":5}'`: {"key_body: /m/dedup-key", `{"m":{},"amount":{{amount}}}`},
		`curl localhost:8080/a --json '{"idempotency_key":"x","amount":5}'`: {"profile: square", `{"amount":{{amount}}}`},
		`curl localhost:8080/a -H 'Idempotency-Key: x' --json '{"dedup_key":"x","amount":5}'`: {
			"profile: ietf", `"dedup_key":"x"`,
		},
	} {
		d, err := FromCurl(command)
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.YAML()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		wantText(t, command, string(text), parts...)
	}
}
