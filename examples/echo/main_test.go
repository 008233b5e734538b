package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

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

// Seen to fail with guarded(safe) taken out of the route.
func TestOnce(t *testing.T) {
	b := new(bank)
	exampletest.Once(t, handler(newGuard(), b, "secret"), request(), b.charges.Load)
}

// Seen to fail with echo.WrapMiddleware(safe) instead of guarded(safe): both get an empty 200.
func TestReturnedErrorIsReplayed(t *testing.T) {
	server := httptest.NewServer(handler(newGuard(), new(bank), "secret"))
	defer server.Close()
	first := exampletest.Post(t, server.URL, "k", `{"amount":-1}`, request())
	retry := exampletest.Post(t, server.URL, "k", `{"amount":-1}`, request())
	if first.Status != http.StatusBadRequest || retry.Status != first.Status ||
		string(retry.Body) != string(first.Body) || !retry.Replayed() {
		t.Errorf("got %d %s, then %d %s", first.Status, first.Body, retry.Status, retry.Body)
	}
}

// Seen to fail with SetResponse taken out of guarded: the client then gets an empty 200.
func TestPanicIsAnswered(t *testing.T) {
	e := echo.New()
	e.Use(middleware.Recover())
	safe := httpsafe.Middleware(newGuard(), httpsafe.ScopeCredential(), httpsafe.Options{})
	e.POST("/payments", func(*echo.Context) error { panic("broken") }, guarded(safe))
	server := httptest.NewServer(e)
	defer server.Close()
	if a := exampletest.Post(t, server.URL, "k", "{}", request()); a.Status != http.StatusInternalServerError {
		t.Errorf("got %d %s, want 500", a.Status, a.Body)
	}
}
