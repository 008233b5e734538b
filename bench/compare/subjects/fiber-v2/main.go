//go:build ignore

// The orders API on fiber v2 behind its idempotency middleware, with the middleware's defaults.
package main

import (
	"fmt"
	"os"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gofiber/fiber/v2/middleware/idempotency"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
)

func main() {
	api := orders.API{Effects: os.Getenv("EFFECTS")}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/effects", adaptor.HTTPHandlerFunc(api.Tell("effects")))
	app.Use(func(c *fiber.Ctx) error {
		if !orders.Known(c.Get("Authorization")) {
			return fiber.ErrUnauthorized
		}
		return c.Next()
	})
	app.Use(idempotency.New(config()))
	app.Use(adaptor.HTTPHandler(api.Handler()))
	fmt.Fprintln(os.Stderr, app.Listen(os.Getenv("ADDRESS")))
}

// config is the default. For the draft's rules it has the draft's header, and takes the draft's keys, which the default
// check of a key's length refuses.
func config() idempotency.Config {
	if os.Getenv("PROFILE") == "none" {
		return idempotency.Config{}
	}
	return idempotency.Config{KeyHeader: "Idempotency-Key", KeyHeaderValidate: func(key string) error {
		if len(key) > 257 { // 255 and two quotes
			return fmt.Errorf("%w: %w", fiber.ErrBadRequest, idempotency.ErrInvalidIdempotencyKey)
		}
		return nil
	}}
}
