// Command gin guards routes of a Gin router, behind the router's own authentication.
//
//	API_TOKEN=secret go run ./examples/gin
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer secret' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
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

	"github.com/gin-gonic/gin"

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

// handler mounts a separate engine with the guarded routes in the router. Middleware that calls c.Next would not
// work: Gin sends a status without a body only when its own writer finishes, which is outside of the guard. The inner
// engine has its own writer and sends everything inside the guard. Pass values to it in the request's context; values
// in gin.Context are not visible to it.
func handler(guard *retrysafe.Guard, b *bank, token string) http.Handler {
	payments := gin.New()
	payments.POST("/payments", b.pay)

	safe := httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	router := gin.New()
	router.Use(gin.Recovery(), authenticate(token))
	router.POST("/payments", gin.WrapH(safe(payments)))
	return router
}

func authenticate(token string) gin.HandlerFunc {
	return func(c *gin.Context) {
		given := c.GetHeader("Authorization")
		if token == "" || subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+token)) != 1 {
			c.AbortWithStatus(http.StatusUnauthorized)
		}
	}
}

// bank counts the charges.
type bank struct{ charges atomic.Int64 }

// pay runs once for each key, however often the client retries.
func (b *bank) pay(c *gin.Context) {
	var order struct {
		Amount int64 `json:"amount" binding:"gt=0"`
	}
	if err := c.ShouldBindJSON(&order); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": "the amount must be a positive number of cents"})
		return
	}
	b.charges.Add(1)
	c.JSON(http.StatusCreated, gin.H{"charge": rand.Text(), "amount": order.Amount})
}
