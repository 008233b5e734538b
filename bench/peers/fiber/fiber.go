// Package fiber calls an app of the web framework fiber, with and without its idempotency middleware.
package fiber

import (
	"fmt"
	"slices"

	gofiber "github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/valyala/fasthttp"

	"github.com/retrysafe/retrysafe/bench/peers"
)

// App is repeatedly called with the same request and different keys, without a connection.
type App struct {
	handler fasthttp.RequestHandler
	ctx     fasthttp.RequestCtx
	ran     int
}

// Bare returns an app without the middleware.
func Bare() *App { return newApp() }

// Guarded returns an app with the middleware, in memory as by default.
func Guarded() *App {
	return newApp(idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key"}))
}

func newApp(middleware ...any) *App {
	a, app := new(App), gofiber.New()
	handlers := slices.Concat(middleware, []any{a.work})
	app.Post("/payments", handlers[0], handlers[1:]...)
	a.handler = app.Handler()
	return a
}

func (a *App) work(c gofiber.Ctx) error {
	a.ran++
	c.Set("Content-Type", "application/json")
	c.Set("Location", peers.Location)
	return c.Status(gofiber.StatusCreated).SendString(peers.AnswerBody)
}

// Ran returns how often the handler's work has run.
func (a *App) Ran() int { return a.ran }

// Serve serves one request, without a key if it is empty, and reports whether the answer was wrong.
func (a *App) Serve(key string) error {
	r := &a.ctx.Request
	r.Reset()
	r.Header.SetMethod(gofiber.MethodPost)
	r.SetRequestURI("/payments")
	r.Header.SetContentType("application/json")
	r.SetBodyString(peers.RequestBody)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	a.ctx.Response.Reset()
	a.handler(&a.ctx)
	status, n := a.ctx.Response.StatusCode(), len(a.ctx.Response.Body())
	if status != gofiber.StatusCreated || n != len(peers.AnswerBody) {
		return fmt.Errorf("answer %d with %d bytes", status, n)
	}
	return nil
}
