package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
	"github.com/retrysafe/retrysafe/proxy"
)

// recipeOf is the recipe of the orders API, which each subject changes where it has to.
func recipeOf(s subject, profile string, p *process) probe.Recipe {
	r := probe.Recipe{
		Target: &url.URL{Scheme: "http", Host: p.address}, Profile: profile, Request: *post("/orders"),
		Identity: probe.Identity{Pointer: "/id"}, Count: effectsAt("http://" + p.address + "/effects"),
		A: bearer("a"), B: bearer("b"), Revoked: bearer("none"),
		Variants: probe.Variants{
			Slow: post("/orders/slow"), Failing: post("/orders/failing"), Broken: post("/orders/broken"), Other: post("/others"),
			Large: post("/orders/large"), Cookie: post("/orders"), Invalid: withBody(post("/orders"), `{"amount": `),
			Read: &probe.Template{Method: http.MethodGet, Path: "/orders"},
		},
		Hooks: probe.Hooks{Restart: p.crash},
	}
	if s.Kind == gateway { // through which the effects cannot always be asked for
		r.Count = counted{p.api}
	}
	if s.recipe != nil {
		s.recipe(&r, profile)
	}
	return r
}

func post(path string) *probe.Template {
	return &probe.Template{
		Path: path, Header: []wire.HeaderLine{{Name: "Content-Type", Value: "application/json"}},
		Body: `{"amount": {{amount}}, "note": "{{uuid}}"}`,
	}
}

func withBody(t *probe.Template, body string) *probe.Template {
	t.Body = body
	return t
}

func bearer(token string) []wire.HeaderLine {
	return []wire.HeaderLine{{Name: "Authorization", Value: "Bearer " + token}}
}

func ownRecipe(r *probe.Recipe, _ string) {
	r.PolicyURL = r.Target.String() + proxy.PolicyPath
	r.Retention = 24 * time.Hour
	r.Lease = 30 * time.Second // the default of retrysafe.Policy
}

func fiberRecipe(r *probe.Recipe, profile string) {
	r.Retention = 30 * time.Minute
	if profile == "none" {
		r.KeyHeader = "X-Idempotency-Key"
	}
}

// restateRecipe calls handlers, which are named and not at paths of one's choice, and set no headers of the answer.
func restateRecipe(r *probe.Recipe, _ string) {
	r.Retention = 24 * time.Hour
	r.Request = *post("/orders/create")
	r.Variants.Other = post("/others/create")
	r.Variants.Invalid.Path = "/orders/create"
	r.Variants.Read.Path = "/orders/list"
	r.Variants.Cookie = nil
}

// effectsAt counts the effects by asking the API.
type effectsAt string

// Count implements probe.Counter.
func (e effectsAt) Count(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := loopback.Call(ctx, http.MethodGet, string(e), "")
	if err != nil {
		return 0, err
	}
	var got struct{ Effects int64 }
	err = json.Unmarshal(text, &got)
	return got.Effects, err
}

// counted counts the effects in their file.
type counted struct{ api orders.API }

// Count implements probe.Counter.
func (c counted) Count(context.Context) (int64, error) { return c.api.Count() }
