package main

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// guarded turns the guard's middleware into Echo middleware. echo.WrapMiddleware alone is not enough, for two reasons:
//
// A handler that returns an error has not written an answer. Echo writes it later, outside of the guard, which would
// record an empty 200. So guarded writes the answer inside the guard.
//
// After a panic the context still has the response that the guard was recording, and the output of middleware.Recover
// would be lost. So guarded restores the original response.
func guarded(safe func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		wrapped := echo.WrapMiddleware(safe)(func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			return nil
		})
		return func(c *echo.Context) error {
			defer c.SetResponse(c.Response())
			defer c.SetRequest(c.Request())
			return wrapped(c)
		}
	}
}
