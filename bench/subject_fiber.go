package main

import (
	"fmt"
	"slices"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/valyala/fasthttp"
)

// fiberSubject repeatedly calls a fiber app with the same request and different keys.
type fiberSubject struct {
	handler fasthttp.RequestHandler
	work    *fiberWork
	ctx     fasthttp.RequestCtx
}

// newFiberSubjects returns a fiber handler with fiber's idempotency middleware, in memory as by default, and one
// without.
func newFiberSubjects() subjects {
	guarded, bare := new(fiberWork), new(fiberWork)
	middleware := idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key"})
	return subjects{guarded: newFiberSubject(guarded, middleware), bare: newFiberSubject(bare)}
}

func newFiberSubject(work *fiberWork, before ...any) *fiberSubject {
	app := fiber.New()
	handlers := append(slices.Clone(before), any(work.serve))
	app.Post("/payments", handlers[0], handlers[1:]...)
	return &fiberSubject{handler: app.Handler(), work: work}
}

func (s *fiberSubject) ran() int { return s.work.ran }

func (s *fiberSubject) serve(key string) error {
	r := &s.ctx.Request
	r.Reset()
	r.Header.SetMethod(fiber.MethodPost)
	r.SetRequestURI("/payments")
	r.Header.SetContentType("application/json")
	r.SetBodyString(chargeBody)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	s.ctx.Response.Reset()
	s.handler(&s.ctx)
	if status, n := s.ctx.Response.StatusCode(), len(s.ctx.Response.Body()); status != 201 || n != len(answerBody) {
		return fmt.Errorf("answer %d with %d bytes", status, n)
	}
	return nil
}

type fiberWork struct{ ran int }

func (f *fiberWork) serve(c fiber.Ctx) error {
	f.ran++
	c.Set("Content-Type", "application/json")
	c.Set("Location", "/payments/pay_1NQ9aW2eZvKYlo2C")
	return c.Status(fiber.StatusCreated).SendString(answerBody)
}
