package recipe

import (
	"fmt"
	"strings"
	"testing"
)

const session = `
key_body: /meta/key
identity: {pointer: /id}
setup:
  - path: /sessions
    headers: {Authorization: "Bearer ${TOKEN_A}"}
    body: '{"amount": {{amount}}}'
    key: true
    save: {session: /session/id, place: "header:Location", code: status}
  - {name: open it, method: PUT, path: "/sessions/{{session}}/open", shared: true}
`

const routesOf = session + `
key_required: true
count: {get: {path: /count}}
routes:
  - name: complete
    request: {path: "/sessions/{{session}}/complete", body: '{"amount": {{amount}}}'}
    variants: {slow: {path: "/sessions/{{session}}/slow"}, failing: {path: /failing}, broken: {body: '{}'}}
  - name: pay
    key_required: false
    setup:
      - {path: /carts, save: {cart: /id}}
    request: {path: /payments, body: '{"cart": "{{cart}}"}'}
    identity: {header: Location}
    count: {get: {path: /payments}}
`

func TestSetUp(t *testing.T) {
	f := mustParse(t, session+`request: {path: "/sessions/{{session}}/complete", body: '{"code": {{code}}}'}`)
	r := f.Recipe
	want(t, "key", r.KeyBody, "/meta/key")
	one, two := r.Request.Setup[0], r.Request.Setup[1]
	want(t, "step", fmt.Sprint(one.Name, one.Keyed, one.Shared, " ", one.Body, lines(one.Header)),
		`POST /sessionstrue false {"amount": {{amount}}}Authorization: Bearer t-a`)
	want(t, "saved", fmt.Sprint(one.Save), "[{session /session/id } {place  Location} {code  }]")
	want(t, "second step", fmt.Sprint(two.Name, " ", two.Method, " ", two.Path, two.Keyed, two.Shared),
		"open it PUT /sessions/{{session}}/openfalse true")
	want(t, "what it makes", f.Makes(),
		"POST /sessions, PUT /sessions/{{session}}/open, POST /sessions/{{session}}/complete")
}

// Seen to fail with shareOther taken out of finishRoutes, and with mentionsSaved not asked for in finishVariants.
func TestRoutes(t *testing.T) {
	f := mustParse(t, routesOf)
	all := f.Routes()
	want(t, "routes", len(all), 2)
	complete, pay := all[0].Recipe, all[1].Recipe
	want(t, "names", complete.Route+" "+pay.Route, "complete pay")
	want(t, "keys required", fmt.Sprint(complete.KeyRequired, pay.KeyRequired), "true false")
	want(t, "identities", fmt.Sprint(complete.Identity, pay.Identity), "{/id } { Location}")
	want(t, "steps", fmt.Sprint(len(complete.Request.Setup), len(pay.Request.Setup)), "2 1")
	want(t, "counts", fmt.Sprint(all[0].isCounted(), all[1].isCounted()), "false true")
	want(t, "described", f.Describe(), "effects are counted by GET /count; effects are counted by GET /payments")
	want(t, "other of complete", complete.Variants.Other.Path, "/payments")
	want(t, "its steps", len(complete.Variants.Other.Setup), 1)
	want(t, "other of pay", pay.Variants.Other.Path, "/sessions/{{session}}/complete")
	want(t, "steps of variants", fmt.Sprint(len(complete.Variants.Slow.Setup), len(complete.Variants.Failing.Setup),
		len(complete.Variants.Broken.Setup)), "2 0 2")
	if err := f.KeepRoutes([]string{"pay"}); err != nil || len(f.Routes()) != 1 || f.Recipe.Route != "pay" {
		t.Errorf("%v %+v", err, f.Routes())
	}
	want(t, "an unknown route", fmt.Sprint(f.KeepRoutes([]string{"complete"})),
		`the recipe has no route "complete"; it has: pay`)
}

func TestOpenRoutes(t *testing.T) {
	f := mustParse(t, "target: http://127.0.0.1:1\n"+routesOf)
	all, done, err := f.OpenRoutes(t.Context(), f.Recipe.Target)
	if err != nil || len(all) != 2 || all[0].Count == nil || all[1].Count == nil || all[0].Count == all[1].Count {
		t.Errorf("%+v %v", all, err)
	}
	want(t, "done", done(), error(nil))
	single := mustParse(t, least)
	one, done, err := single.OpenRoutes(t.Context(), nil)
	want(t, "one", fmt.Sprint(len(one), one[0].Route, err, done()), "1<nil> <nil>")
}

func TestFaultsOfSetUpAndRoutes(t *testing.T) {
	const request = "request: {path: /payments, body: '{\"amount\": {{amount}}}'}\nidentity: {pointer: /id}\n"
	for _, c := range []struct{ source, fault, instead string }{
		{request + "setup: {}\n", "setup must be a list", "- {path: /sessions"},
		{request + "setup: [{save: {id: /id}}]\n", "setup[0].path is missing", "path: /sessions"},
		{request + "setup: [{path: /s, save: {uuid: /id}}]\n", "{{uuid}} is a generator", "another name"},
		{request + "setup: [{path: /s, save: {Id: /id}}]\n", `"Id" cannot be the name`, "session_id"},
		{request + "setup: [{path: /s, save: {id: id}}]\n", `"id" is no place`, "header:Location"},
		{request + "setup: [{path: /s, save: {id: 'header:a b'}}]\n", "is no place", "status"},
		{request + "setup: [{path: '/s/{{id}}', save: {id: /id}}]\n", "unknown generator {{id}}", "comes before"},
		{request + "setup: [{path: /s, url: /t}]\n", "url", "path"},
		{
			"setup: [{path: /s, save: {session: /id}}]\nrequest: {path: '/s/{{sesion}}'}\n" + "identity: {pointer: /id}\n",
			"{{sesion}}", "did you mean {{session}}?",
		},
		{request + "key_body: /key\nkey_query: key\n", "one place only", "keep one of"},
		{request + "key_body: key\n", "not a JSON pointer", "/key"},
		{request + "key_query: 'a b'\n", "not the name of a query parameter", "idempotency_key"},
		{request + "key_body: /amount\n", "sends amount itself", "leave it out"},
		{"key_query: k\nrequest: {path: '/p?k=1'}\nidentity: {pointer: /id}\n", "sends k itself", "leave it out"},
		{"key_body: /k\nrequest: {path: /p, body: text}\nidentity: {pointer: /id}\n", "no place for a key", "JSON object"},
		{request + "routes: []\n", "routes must be a list", "name: pay"},
		{request + "routes: [{name: a, request: {path: /p}}]\n", "either request or routes", "move the request"},
		{"identity: {pointer: /id}\nroutes: [{request: {path: /p}}]\n", "has no name", "name: complete"},
		{"identity: {pointer: /id}\nroutes: [{name: a b, request: {path: /p}}]\n", "name of a route", "dashes"},
		{"identity: {pointer: /id}\nroutes: [{name: a}]\n", "has no request", "write request"},
		{
			"identity: {pointer: /id}\nroutes: [{name: a, request: {path: /p}}, {name: a, request: {path: /q}}]\n",
			"two routes have the name a", "of its own",
		},
		{
			"identity: {pointer: /id}\nvariants: {slow: {path: /s}}\nroutes: [{name: a, request: {path: /p}}]\n",
			"variants.slow does not say", "into the route",
		},
		{"routes: [{name: a, request: {path: /p}}]\n", "identity is missing", "identity: {pointer: /id}"},
		{leastGRPC + "setup: []\n", "setup is for HTTP APIs", "by hand"},
		{leastGRPC + "routes: []\n", "routes is for HTTP APIs", "a recipe for each"},
		{leastGRPC + "key_body: /k\n", "key_body is for HTTP APIs", "key_field"},
		{leastGRPC + "key_query: k\n", "key_query is for HTTP APIs", "key_metadata"},
	} {
		_, err := Parse("payments.yaml", []byte(c.source), variablesOf)
		wantIn(t, c.source, err, c.fault, c.instead)
	}
}

func wantIn(t *testing.T, source string, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s\n%v\nlacks %s", source, err, part)
		}
	}
}
