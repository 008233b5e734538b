package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
)

// playFiber serves the API on fiber behind its idempotency middleware.
func (r role) playFiber(ctx context.Context) error {
	app := fiber.New()
	orders := fiberOrders{r.api()}
	app.Get("/effects", orders.tell("effects"))
	app.Use(func(c fiber.Ctx) error {
		if !known(c.Get("Authorization")) {
			return fiber.ErrUnauthorized
		}
		return c.Next()
	})
	app.Use(idempotency.New(fiberConfig(r.profile)))
	app.Post("/orders", orders.post(""))
	app.Post("/others", orders.post(""))
	app.Post("/orders/large", orders.post(largeLines()))
	app.Post("/orders/slow", func(c fiber.Ctx) error {
		time.Sleep(slowness)
		return orders.post("")(c)
	})
	app.Post("/orders/failing", func(c fiber.Ctx) error {
		return c.Status(http.StatusPaymentRequired).JSON(fiber.Map{"error": "no money"})
	})
	app.Post("/orders/broken", func(c fiber.Ctx) error {
		return c.Status(http.StatusInternalServerError).JSON(fiber.Map{"error": "broken"})
	})
	app.Get("/orders", orders.tell("orders"))
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

// fiberOrders is the API on fiber.
type fiberOrders struct{ api api }

func (o fiberOrders) post(lines string) fiber.Handler {
	return func(c fiber.Ctx) error {
		var in order
		if err := json.Unmarshal(c.Body(), &in); err != nil {
			return c.Status(http.StatusBadRequest).JSON(fiber.Map{"error": "that is not JSON"})
		}
		made, err := o.api.create(in)
		if err != nil {
			return err
		}
		made.Lines = lines
		c.Set("Location", "/orders/"+made.ID)
		c.Set("X-Request-Id", rand.Text())
		c.Cookie(&fiber.Cookie{Name: "seen", Value: made.ID})
		return c.Status(http.StatusCreated).JSON(made)
	}
}

func (o fiberOrders) tell(name string) fiber.Handler {
	return func(c fiber.Ctx) error {
		n, err := o.api.effects.count()
		if err != nil {
			return err
		}
		return c.JSON(fiber.Map{name: n})
	}
}
