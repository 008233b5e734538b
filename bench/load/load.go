// Package load sends HTTP/1.1 POST requests over a fixed number of connections, each as soon as the previous answer
// has arrived. The client is that of fasthttp, so that most of a small machine's time is left to the measured server.
package load

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Target is the server and the form of its requests.
type Target struct {
	// Addr is the server's host and port.
	Addr string
	Path string
	Body string
	// KeyHeader is the header for keys; if it is empty, requests have none.
	KeyHeader string
	// Quoted sends keys as structured-field strings.
	Quoted bool
}

// Keys describes the keys of the requests.
type Keys struct {
	// Run makes the keys of different runs different.
	Run uint32
	// Among is the number of different keys, which are used in turn. 0 means that each request has a fresh key.
	Among int
}

// Result is the result of a run.
type Result struct {
	Took time.Duration
	// Micros has the duration of each request in microseconds, unordered.
	Micros figure.Samples
}

// PerSecond returns the number of answered requests per second.
func (r Result) PerSecond() float64 { return float64(len(r.Micros)) / r.Took.Seconds() }

// Run sends requests over connections until d has passed, or, if count is above 0, until count requests were sent. It
// returns an error if any answer is not 2xx.
func Run(t Target, k Keys, connections int, d time.Duration, count int) (Result, error) {
	var sending errgroup.Group
	took := make([]figure.Samples, connections)
	began := time.Now()
	for i := range connections {
		sending.Go(func() error {
			c := newClient(t)
			defer c.http.CloseIdleConnections()
			for n := i; count > 0 && n < count || count == 0 && time.Since(began) < d; n += connections {
				sent := time.Now()
				if err := c.send(k, n); err != nil {
					return err
				}
				took[i] = append(took[i], float64(time.Since(sent))/float64(time.Microsecond))
			}
			return nil
		})
	}
	err := sending.Wait()
	all := Result{Took: time.Since(began)}
	for _, some := range took {
		all.Micros = append(all.Micros, some...)
	}
	return all, err
}

// client is one connection.
type client struct {
	Target
	http     fasthttp.HostClient
	request  fasthttp.Request
	response fasthttp.Response
	key      []byte
}

func newClient(t Target) *client {
	c := &client{Target: t, http: fasthttp.HostClient{
		Addr: t.Addr, MaxConns: 1, NoDefaultUserAgentHeader: true,
	}}
	c.request.SetRequestURI("http://" + t.Addr + t.Path)
	c.request.Header.SetMethod(fasthttp.MethodPost)
	c.request.Header.SetContentType("application/json")
	c.request.SetBodyString(t.Body)
	return c
}

// send sends the n-th request. Its key is as long as a UUID.
func (c *client) send(k Keys, n int) error {
	if c.KeyHeader != "" {
		if k.Among > 0 {
			n %= k.Among
		}
		format := "%08x-0000-4000-8000-%012x"
		if c.Quoted {
			format = `"` + format + `"`
		}
		c.key = fmt.Appendf(c.key[:0], format, k.Run, n)
		c.request.Header.SetBytesV(c.KeyHeader, c.key)
	}
	if err := c.http.Do(&c.request, &c.response); err != nil {
		return err
	}
	if status := c.response.StatusCode(); status/100 != 2 {
		return fmt.Errorf("load: answer %d\n%.2000s", status, c.response.Body())
	}
	return nil
}
