package main

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// guarded makes Echo middleware of the guard's. echo.WrapMiddleware alone is not enough, for two reasons:
//
// A handler that returns an error has written nothing yet: Echo writes the answer later, outside of the guard, which
// would have recorded an empty 200. So the answer is written in here.
//
// After a panic the context still has the response that the guard was recording, which has ended: what
// middleware.Recover writes would be lost. So the context gets back the one it came with.
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
