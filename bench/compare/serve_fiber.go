package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
)

// playFiber serves the API on fiber behind its idempotency middleware.
func (r role) playFiber(ctx context.Context) error {
	app := fiber.New()
	app.Get("/effects", adaptor.HTTPHandlerFunc(r.api().Tell("effects")))
	app.Use(func(c fiber.Ctx) error {
		if !orders.Known(c.Get("Authorization")) {
			return fiber.ErrUnauthorized
		}
		return c.Next()
	})
	app.Use(idempotency.New(fiberConfig(r.profile)))
	app.Use(adaptor.HTTPHandler(r.api().Handler()))
	return app.Listen(r.address, fiber.ListenConfig{
		DisableStartupMessage: true, GracefulContext: ctx,
		ShutdownTimeout: time.Second,
	})
}

// fiberConfig is the default. For the draft's rules it has the draft's header, and takes the draft's keys, which
// fiber's own check of their length refuses.
func fiberConfig(profile string) idempotency.Config {
	if profile == "none" {
		return idempotency.Config{}
	}
	return idempotency.Config{KeyHeader: "Idempotency-Key", KeyHeaderValidate: func(key string) error {
		if len(key) > 257 { // 255 and two quotes
			return fmt.Errorf("%w: %w", fiber.ErrBadRequest, idempotency.ErrInvalidIdempotencyKey)
		}
		return nil
	}}
}
