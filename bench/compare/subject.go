package main

import (
	"context"
	_ "embed"
	"os/exec"

	"github.com/retrysafe/retrysafe/bench/peers/express"
	"github.com/retrysafe/retrysafe/bench/peers/restate"
	"github.com/retrysafe/retrysafe/probe"
)

// subject is a layer that is probed.
type subject struct {
	Name    string // of its file
	Column  string // of the matrix
	Title   string
	Version string
	// Notes say how it was configured, what it promises, and what stands behind its FAILs.
	Notes string

	install   func(ctx context.Context, dir string) (string, error) // nil: nothing is to be installed
	installed string                                                // what install returned
	command   func(r role) *exec.Cmd
	recipe    func(r *probe.Recipe, profile string)
}

//go:embed notes/ours.md
var oursNotes string

//go:embed notes/fiber.md
var fiberNotes string

//go:embed notes/express.md
var expressNotes string

//go:embed notes/restate.md
var restateNotes string

// subjects in the order of the matrix.
func subjects() []subject {
	ours := func(name, column, title string) subject {
		return subject{
			Name: name, Column: column, Title: title, Version: "this repository", Notes: oursNotes,
			command: ownCommand, recipe: ownRecipe,
		}
	}
	return []subject{
		ours("httpsafe-memstore", "middleware, memory", "The middleware httpsafe on memstore"),
		ours("httpsafe-sqlite", "middleware, SQLite", "The middleware httpsafe on sqlitestore"),
		ours("proxy-memstore", "proxy, memory", "The proxy on memstore"),
		ours("proxy-sqlite", "proxy, SQLite", "The proxy on sqlitestore"),
		{
			Name: "fiber", Column: "fiber", Title: "The idempotency middleware of gofiber",
			Version: "github.com/gofiber/fiber/v3 v3.1.0",
			Notes:   fiberNotes, command: ownCommand, recipe: fiberRecipe,
		},
		{
			Name: "express", Column: "express-idempotency", Title: "express-idempotency",
			Version: "express-idempotency 1.0.6 with express 4.22.3",
			Notes:   expressNotes, install: express.Install, command: expressCommand, recipe: func(*probe.Recipe, string) {},
		},
		{
			Name: "restate", Column: "Restate", Title: "A handler of Restate behind its ingress",
			Version: "@restatedev/restate-server 1.7.12 with github.com/restatedev/sdk-go v1.2.0", Notes: restateNotes,
			install: restate.Install, command: ownCommand, recipe: restateRecipe,
		},
	}
}
