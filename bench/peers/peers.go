// Package peers says what every side of a comparison does, and calls it in the same way. Each package below is an
// opponent: a limit (rawlog), the usual statements and the servers' own benchmark programs (plain), a bare reverse
// proxy, and other products. Package npm installs those that come from npm.
package peers

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe"
)

// Peer works for about d with so many callers, each of which continues without a pause. Our side is a Peer too.
type Peer func(ctx context.Context, callers int, d time.Duration) (Done, error)

// Done is what a Peer has done: how much, at which rate, and the median and the 99th percentile of the duration of one
// piece of work in microseconds, which are 0 if the Peer does not measure them.
type Done struct {
	Count     int64
	PerSecond float64
	P50, P99  float64
}

// Each returns a Peer that calls f once for each piece of work.
func Each(f func(context.Context) error) Peer {
	return func(ctx context.Context, callers int, d time.Duration) (Done, error) {
		var count atomic.Int64
		all, ctx := errgroup.WithContext(ctx)
		began := time.Now()
		for range callers {
			all.Go(func() error {
				for time.Since(began) < d {
					if err := f(ctx); err != nil {
						return err
					}
					count.Add(1)
				}
				return nil
			})
		}
		err := all.Wait()
		return Done{Count: count.Load(), PerSecond: float64(count.Load()) / time.Since(began).Seconds()}, err
	}
}

// A pair is a durable claim and a durable completion. Each side saves the same bytes for it.
const (
	Scope       = "v1/tenant-17/POST %2Fpayments"
	Fingerprint = retrysafe.Fingerprint("raw1:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")
	// Lease and Keep are in the records of plain statements, which look at neither.
	Lease = 30 * time.Second
	Keep  = 24 * time.Hour
)

// Result returns the answer of a small JSON API. It must not be modified.
func Result() retrysafe.Result {
	return retrysafe.Result{
		Code: 201,
		Meta: []byte("Content-Type: application/json\nLocation: /payments/pay_1NQ9aW2eZvKYlo2C\n"),
		Body: []byte(`{"id":"pay_1NQ9aW2eZvKYlo2C","status":"succeeded","lines":"` + strings.Repeat("x", 190) + `"}`),
	}
}

// The request to each HTTP server, and the answer of each handler that is called without a connection.
const (
	RequestBody = `{"amount":4200,"currency":"EUR","customer":"cus_9s6XKzkNRiz8i3"}`
	AnswerBody  = `{"id":"pay_1NQ9aW2eZvKYlo2C","status":"succeeded","amount":4200,"currency":"EUR"}`
	Location    = "/payments/pay_1NQ9aW2eZvKYlo2C"
)
