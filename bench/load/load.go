// Package load sends HTTP/1.1 POST requests over a fixed number of connections: each as soon as the previous answer
// has arrived, or at a fixed rate. The client is that of fasthttp, so that most of a small machine's time is left to the measured server.
package load

import (
	"context"
	"fmt"
	"syscall"
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

// RunAt sends perSecond requests a second over connections until d has passed, whether or not earlier ones were
// answered: a request waits for a connection if all are busy. The duration of each counts from when it was planned to
// be sent, so that this wait is part of it. RunAt returns an error if any answer is not 2xx.
func RunAt(t Target, k Keys, connections int, d time.Duration, perSecond float64) (Result, error) {
	type request struct {
		n       int
		planned time.Time
	}
	count := int(d.Seconds() * perSecond)
	due := make(chan request, count) // never full: nothing may delay the schedule
	sending, failed := errgroup.WithContext(context.Background())
	took := make([]figure.Samples, connections)
	for i := range connections {
		sending.Go(func() error {
			c := newClient(t)
			defer c.http.CloseIdleConnections()
			for r := range due {
				if err := c.send(k, r.n); err != nil {
					return err
				}
				took[i] = append(took[i], float64(time.Since(r.planned))/float64(time.Microsecond))
			}
			return nil
		})
	}
	began := time.Now()
	for n := range count {
		planned := began.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
		if failed.Err() != nil {
			break
		}
		if wait := time.Until(planned); wait > 0 { // the timers of Go may be a millisecond late
			pause := syscall.NsecToTimespec(wait.Nanoseconds())
			_ = syscall.Nanosleep(&pause, nil) // if a signal ends it early, this request is early
		}
		due <- request{n, planned}
	}
	close(due)
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
