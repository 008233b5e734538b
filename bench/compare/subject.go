package main

import (
	"embed"

	"github.com/retrysafe/retrysafe/probe"
)

// subject is a system that is probed. To add one: a row in subjects, and a folder of its name in subjects/ with notes.md
// and, unless this program or another one serves it, its program and the versions that it is built of.
type subject struct {
	Name    string // of its page, of its folder, and after -only
	Column  string // of the index: what it is called
	Title   string // of its page
	Version string // parts are separated by " with "
	Licence string // as its package names it
	Kind    kind

	runs   runner
	store  string // the server that keeps its records: redis, postgres, nats, or none
	folder string // default: Name
	// profiles by which it is judged; default: all.
	profiles []string
	// recipe changes the recipe of the orders API where the subject needs it. May be nil.
	recipe func(r *probe.Recipe, profile string)

	installed string // what runs.install returned
}

// kind is what a subject is.
type kind string

const (
	ourselves  kind = "ours"
	middleware kind = "middleware"
	engine     kind = "workflow engine"
	queue      kind = "job queue"
	broker     kind = "message broker"
	service    kind = "server with keys"
	mock       kind = "mock or server without keys"
	gateway    kind = "gateway"
)

//go:embed all:subjects
var folders embed.FS

// Folder is where the notes of a subject are, and its program if it has one of its own.
func (s subject) Folder() string {
	if s.folder != "" {
		return "subjects/" + s.folder
	}
	return "subjects/" + s.Name
}

// Notes say how the subject was configured, what it promises, and what stands behind its FAILs.
func (s subject) Notes() (string, error) {
	text, err := folders.ReadFile(s.Folder() + "/notes.md")
	return string(text), err
}

// subjects in the order of the index.
func subjects() []subject {
	ours := func(name, column, title string) subject {
		return subject{
			Name: name, Column: column, Title: title, Version: "this repository", Licence: "Apache-2.0", Kind: ourselves,
			runs: own, folder: "ours", recipe: ownRecipe,
		}
	}
	return []subject{
		ours("httpsafe-memstore", "Retrysafe, middleware, memory", "The middleware httpsafe on memstore"),
		ours("httpsafe-sqlite", "Retrysafe, middleware, SQLite", "The middleware httpsafe on sqlitestore"),
		ours("proxy-memstore", "Retrysafe, proxy, memory", "The proxy on memstore"),
		ours("proxy-sqlite", "Retrysafe, proxy, SQLite", "The proxy on sqlitestore"),
		{
			Name: "fiber", Column: "fiber v3", Title: "The idempotency middleware of fiber v3",
			Version: "github.com/gofiber/fiber/v3 v3.1.0", Licence: "MIT", Kind: middleware, runs: own, recipe: fiberRecipe,
		},
		{
			Name: "fiber-v2", Column: "fiber v2", Title: "The idempotency middleware of fiber v2",
			Version: "github.com/gofiber/fiber/v2 v2.52.15", Licence: "MIT", Kind: middleware, runs: golang, recipe: fiberRecipe,
		},
		{
			Name: "express-idempotency", Column: "express-idempotency, memory", Title: "express-idempotency",
			Version: "express-idempotency 1.0.6 with express 4.22.3", Licence: "MIT", Kind: middleware, runs: node,
		},
		{
			Name: "express-idempotency-redis", Column: "express-idempotency, Redis", Title: "express-idempotency with its adapter for Redis",
			Version: "express-idempotency-redis-adapter 1.0.8 with express-idempotency 1.0.6", Licence: "MIT", Kind: middleware,
			runs: node, store: "redis",
		},
		{
			Name: "node-idempotency-nestjs", Column: "@node-idempotency/nestjs", Title: "@node-idempotency/nestjs",
			Version: "@node-idempotency/nestjs 1.0.4 with @nestjs/core 10.4.22", Licence: "MIT", Kind: middleware, runs: node,
		},
		{
			Name: "powertools", Column: "Powertools for AWS Lambda", Title: "The idempotency utility of Powertools for AWS Lambda (TypeScript)",
			Version: "@aws-lambda-powertools/idempotency 2.35.0", Licence: "MIT-0", Kind: middleware, runs: node, store: "redis",
		},
		{
			Name: "restate", Column: "Restate", Title: "A handler of Restate behind its ingress",
			Version: "@restatedev/restate-server 1.7.12 with github.com/restatedev/sdk-go v1.2.0", Licence: "BSL",
			Kind: engine, runs: restateServer, recipe: restateRecipe,
		},
		{
			Name: "dbos", Column: "DBOS", Title: "A workflow of DBOS", Version: "@dbos-inc/dbos-sdk 5.3.0", Licence: "MIT",
			Kind: engine, runs: node, store: "postgres",
		},
		{
			Name: "effect-workflow", Column: "@effect/workflow, memory", Title: "A workflow of @effect/workflow on its engine in memory",
			Version: "@effect/workflow 0.19.1", Licence: "MIT", Kind: engine, runs: node,
		},
		{
			Name: "bullmq", Column: "BullMQ", Title: "A job of BullMQ", Version: "bullmq 6.7.0", Licence: "MIT", Kind: queue,
			runs: node, store: "redis",
		},
		{
			Name: "asynq", Column: "asynq", Title: "A task of asynq", Version: "github.com/hibiken/asynq v0.26.0", Licence: "MIT",
			Kind: queue, runs: golang, store: "redis",
		},
		{
			Name: "river", Column: "River", Title: "A unique job of River", Version: "github.com/riverqueue/river v0.51.2",
			Licence: "MPL-2.0", Kind: queue, runs: golang, store: "postgres",
		},
		{
			Name: "nats-jetstream", Column: "NATS JetStream", Title: "A stream of NATS JetStream",
			Version: "github.com/nats-io/nats-server/v2 v2.15.2 with github.com/nats-io/nats.go v1.55.0", Licence: "Apache-2.0",
			Kind: broker, runs: golang, store: "nats", recipe: messagesRecipe,
		},
		{
			Name: "fauxqs-fifo", Column: "fauxqs, a FIFO queue", Title: "A FIFO queue of fauxqs, an emulator of SQS",
			Version: "fauxqs 2.4.1", Licence: "MIT", Kind: broker, runs: node, profiles: []string{"none"}, recipe: fifoRecipe,
		},
		{
			Name: "centrifugo", Column: "Centrifugo", Title: "The publish call of Centrifugo",
			Version: "github.com/centrifugal/centrifugo/v6 v6.9.1", Licence: "Apache-2.0", Kind: broker,
			runs:     goTool("github.com/centrifugal/centrifugo/v6", centrifugoArguments),
			profiles: []string{"none"}, recipe: centrifugoRecipe,
		},
		{
			Name: "parse-server", Column: "Parse Server", Title: "Parse Server with idempotency enforcement",
			Version: "parse-server 9.10.0", Licence: "Apache-2.0", Kind: service, runs: node, store: "postgres",
			profiles: []string{"none"}, recipe: parseRecipe,
		},
		{
			Name: "nginx", Column: "nginx", Title: "nginx before an API without keys", Version: "nginx 1.22.1 of Debian 12",
			Licence: "BSD-2-Clause", Kind: gateway, runs: own, profiles: []string{"none"}, recipe: gatewayRecipe,
		},
		{
			Name: "haproxy", Column: "HAProxy, retry-on", Title: "HAProxy with retries before an API without keys",
			Version: "haproxy 2.6.12 of Debian 12", Licence: "GPL-2.0-or-later", Kind: gateway, runs: own,
			profiles: []string{"none"}, recipe: gatewayRecipe,
		},
		{
			Name: "stripe-mock", Column: "stripe-mock", Title: "stripe-mock", Version: "github.com/stripe/stripe-mock v0.203.0",
			Licence: "MIT", Kind: mock, runs: goTool("github.com/stripe/stripe-mock", stripeMockArguments),
			profiles: []string{"none"}, recipe: stripeMockRecipe,
		},
		{
			Name: "json-server", Column: "json-server", Title: "json-server", Version: "json-server 0.17.4", Licence: "MIT",
			Kind: mock, runs: node, profiles: []string{"none"}, recipe: jsonServerRecipe,
		},
		{
			Name: "mcp-sdk", Column: "MCP TypeScript SDK", Title: "A tool on the Model Context Protocol's TypeScript SDK",
			Version: "@modelcontextprotocol/sdk 1.32.2", Licence: "MIT", Kind: mock, runs: node,
			profiles: []string{"none"}, recipe: mcpRecipe,
		},
	}
}
