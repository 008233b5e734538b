package main

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/httpsafe"
)

var payment = exampletest.Payment("Authorization", "Bearer secret")

// Seen to fail with guarded(safe) taken out of the route.
func TestOnce(t *testing.T) {
	b := new(bank)
	exampletest.Serve(t, handler(exampletest.NewGuard(), b, "secret"), payment).Once(b.charges.Load)
}

// Seen to fail with echo.WrapMiddleware(safe) instead of guarded(safe): both get an empty 200.
func TestReturnedErrorIsReplayed(t *testing.T) {
	api := exampletest.Serve(t, handler(exampletest.NewGuard(), new(bank), "secret"), payment)
	first, retry := api.Post("k", `{"amount":-1}`), api.Post("k", `{"amount":-1}`)
	if first.Status != http.StatusBadRequest || retry.Status != first.Status ||
		string(retry.Body) != string(first.Body) || !retry.Replayed() {
		t.Errorf("got %d %s, then %d %s", first.Status, first.Body, retry.Status, retry.Body)
	}
}

// Seen to fail with SetResponse taken out of guarded: the client then gets an empty 200.
func TestPanicIsAnswered(t *testing.T) {
	e := echo.New()
	e.Use(middleware.Recover())
	safe := httpsafe.Middleware(exampletest.NewGuard(), httpsafe.ScopeCredential(), httpsafe.Options{})
	e.POST("/payments", func(*echo.Context) error { panic("broken") }, guarded(safe))
	if a := exampletest.Serve(t, e, payment).Post("k", "{}"); a.Status != http.StatusInternalServerError {
		t.Errorf("got %d %s, want 500", a.Status, a.Body)
	}
}
