package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func request() exampletest.Request {
	return exampletest.Request{
		Path:   "/payments",
		Header: http.Header{"Authorization": {"Bearer secret"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

func newGuard() *retrysafe.Guard {
	return retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
}

// Seen to fail with safe taken out of the route.
func TestOnce(t *testing.T) {
	b := new(bank)
	exampletest.Once(t, handler(newGuard(), b, "secret"), request(), b.charges.Load)
}

// mounted serves h in the same way as the example mounts its payments.
func mounted(t *testing.T, h gin.HandlerFunc) string {
	inner := gin.New()
	inner.POST("/payments", h)
	safe := httpsafe.Middleware(newGuard(), httpsafe.ScopeCredential(), httpsafe.Options{})
	router := gin.New()
	router.Use(gin.Recovery())
	router.POST("/payments", gin.WrapH(safe(inner)))
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return server.URL
}

// Seen to fail with middleware that lets gin.Context.Writer write to the recorder and calls Next: 200 is recorded.
func TestBareStatusIsReplayed(t *testing.T) {
	url := mounted(t, func(c *gin.Context) { c.Status(http.StatusAccepted) })
	for range 2 {
		if a := exampletest.Post(t, url, "k", "{}", request()); a.Status != http.StatusAccepted {
			t.Errorf("got %d, want 202", a.Status)
		}
	}
}

// Seen to fail with a Recovery in the inner engine that answers 200.
func TestPanicIsAnswered(t *testing.T) {
	url := mounted(t, func(*gin.Context) { panic("broken") })
	for _, attempt := range []string{"first", "retry"} {
		if a := exampletest.Post(t, url, "k", "{}", request()); a.Status != http.StatusInternalServerError {
			t.Errorf("%s: got %d %s, want 500", attempt, a.Status, a.Body)
		}
	}
}
