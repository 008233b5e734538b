package main

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/httpsafe"
)

var payment = exampletest.Payment("Authorization", "Bearer secret")

// Seen to fail with safe taken out of the route.
func TestOnce(t *testing.T) {
	b := new(bank)
	exampletest.Serve(t, handler(exampletest.NewGuard(), b, "secret"), payment).Once(b.charges.Load)
}

// mounted serves h in the same way as the example mounts its payments.
func mounted(t *testing.T, h gin.HandlerFunc) exampletest.API {
	inner := gin.New()
	inner.POST("/payments", h)
	safe := httpsafe.Middleware(exampletest.NewGuard(), httpsafe.ScopeCredential(), httpsafe.Options{})
	router := gin.New()
	router.Use(gin.Recovery())
	router.POST("/payments", gin.WrapH(safe(inner)))
	return exampletest.Serve(t, router, payment)
}

// Seen to fail with middleware that lets gin.Context.Writer write to the recorder and calls Next: 200 is recorded.
func TestBareStatusIsReplayed(t *testing.T) {
	api := mounted(t, func(c *gin.Context) { c.Status(http.StatusAccepted) })
	for range 2 {
		if a := api.Post("k", "{}"); a.Status != http.StatusAccepted {
			t.Errorf("got %d, want 202", a.Status)
		}
	}
}

// Seen to fail with a Recovery in the inner engine that answers 200.
func TestPanicIsAnswered(t *testing.T) {
	api := mounted(t, func(*gin.Context) { panic("broken") })
	for _, attempt := range []string{"first", "retry"} {
		if a := api.Post("k", "{}"); a.Status != http.StatusInternalServerError {
			t.Errorf("%s: got %d %s, want 500", attempt, a.Status, a.Body)
		}
	}
}
