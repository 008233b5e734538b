// Command echo guards a route of an Echo router, behind Echo's own authentication.
//
//	API_TOKEN=secret go run ./examples/echo
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer secret' -H 'Idempotency-Key: "order-17"' \
//	  -H 'Content-Type: application/json' -d '{"amount":4200}'
package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func main() {
	if err := run(os.Getenv("API_TOKEN")); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run(token string) error {
	store, err := sqlitestore.Open("payments.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{
		Addr:              "127.0.0.1:8080",
		Handler:           handler(guard, new(bank), token),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), store.Close())
}

func handler(guard *retrysafe.Guard, b *bank, token string) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover())
	e.Use(middleware.KeyAuth(func(_ *echo.Context, given string, _ middleware.ExtractorSource) (bool, error) {
		return token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1, nil
	}))
	safe := httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	e.POST("/payments", b.pay, guarded(safe))
	return e
}

// bank counts the charges.
type bank struct{ charges atomic.Int64 }

// pay runs once for each key, however often the client retries.
func (b *bank) pay(c *echo.Context) error {
	var order struct {
		Amount int64 `json:"amount"`
	}
	if err := c.Bind(&order); err != nil {
		return err
	}
	if order.Amount <= 0 {
		return echo.NewHTTPError(http.StatusBadRequest, "the amount must be a positive number of cents")
	}
	b.charges.Add(1)
	return c.JSON(http.StatusCreated, map[string]any{"charge": rand.Text(), "amount": order.Amount})
}
