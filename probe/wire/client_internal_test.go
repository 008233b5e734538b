package wire

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// free is a meter without limits.
type free struct{}

func (free) Spend(context.Context) error { return nil }
func (free) Connected() int              { return 1 }

// wireTo is a wire to a server of the test, which it trusts.
func wireTo(t *testing.T, s *httptest.Server) *Client {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := New(u, time.Minute, free{})
	if w.tls != nil {
		w.tls.RootCAs = x509.NewCertPool()
		w.tls.RootCAs.AddCert(s.Certificate())
	}
	return w
}

// listen serves h on loopback until the test ends, with TLS or without, with HTTP/2 or without.
func listen(t *testing.T, h http.Handler, overTLS, two bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(two)
	s.Config.Protocols.SetHTTP2(two)
	s.EnableHTTP2 = two
	if overTLS {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// crowd counts how many requests are being handled, and lets none end before all have come: only a barrier gets
// through.
type crowd struct {
	all   int
	seen  atomic.Int64
	early atomic.Bool // a whole body came before all heads had
	full  chan struct{}
}

func newCrowd(n int) *crowd { return &crowd{all: n, full: make(chan struct{})} }

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.seen.Add(1) == int64(c.all) {
		close(c.full)
	}
	body, err := io.ReadAll(r.Body)
	select {
	case <-c.full:
	case <-time.After(time.Minute):
		c.early.Store(true)
	}
	if err != nil {
		return
	}
	_, _ = w.Write(body)
}

func posts(n int) []Request {
	all := make([]Request, n)
	for i := range all {
		all[i] = Request{Method: "POST", Path: "/", Body: []byte("request " + strconv.Itoa(i)), Close: true}
	}
	return all
}

func TestBurstSendsLastBytesAtOnce(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{false, true} {
		c := newCrowd(30)
		w := wireTo(t, listen(t, c, overTLS, false))
		requests := posts(30)
		for i, a := range w.Burst(t.Context(), requests) {
			if !a.OK() || !bytes.Equal(a.Body, requests[i].Body) {
				t.Errorf("TLS %t, answer %d: %d %q %v", overTLS, i, a.Status, a.Body, a.Err)
			}
		}
		if c.early.Load() {
			t.Errorf("TLS %t: a request was whole before the others had been begun", overTLS)
		}
	}
}

func TestBurstSaysWhatCannotBeDialled(t *testing.T) {
	t.Parallel()
	s := listen(t, newCrowd(1), false, false)
	w := wireTo(t, s)
	s.Close()
	for i, a := range w.Burst(t.Context(), posts(3)) {
		if a.Err == nil || a.Status != 0 {
			t.Errorf("answer %d: %d %v, want an error", i, a.Status, a.Err)
		}
	}
}

func TestStreamsShareOneConnection(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{false, true} {
		c := newCrowd(20)
		var mu sync.Mutex
		from := map[string]int{}
		w := wireTo(t, listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			from[r.RemoteAddr+" "+r.Proto]++
			mu.Unlock()
			c.ServeHTTP(rw, r)
		}), overTLS, true))
		requests := posts(20)
		answers, err := w.Streams(t.Context(), requests)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if !a.OK() || !bytes.Equal(a.Body, requests[i].Body) {
				t.Errorf("TLS %t, stream %d: %d %q %v", overTLS, i, a.Status, a.Body, a.Err)
			}
		}
		if len(from) != 1 || c.early.Load() {
			t.Errorf("TLS %t: connections %v, early %t; want one HTTP/2 connection, all at once", overTLS, from, c.early.Load())
		}
	}
}

func TestStreamsSayThatThereIsNoHTTP2(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{false, true} {
		w := wireTo(t, listen(t, newCrowd(1), overTLS, false))
		if _, err := w.Streams(t.Context(), posts(2)); !errors.Is(err, ErrNoHTTP2) {
			t.Errorf("TLS %t: %v, want %v", overTLS, err, ErrNoHTTP2)
		}
	}
}

func TestStreamsGoOnWhenSomeAreRefused(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	w := wireTo(t, listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 0 {
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}), false, true))
	answers, err := w.Streams(t.Context(), posts(6))
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Status == 0 {
			t.Errorf("stream %d got no answer: %v", i, a.Err)
		}
	}
}

func TestStartedRequests(t *testing.T) {
	t.Parallel()
	type seen struct {
		body string
		err  error
	}
	came := make(chan seen, 4)
	w := wireTo(t, listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		came <- seen{string(body), err}
	}), false, false))
	r := Request{Method: "POST", Path: "/", Body: []byte("0123456789"), Close: true}
	begin := func() *Conn {
		s, err := w.Start(t.Context(), r, 5)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if a := begin().Finish(); !a.OK() {
		t.Errorf("finish: %d %v", a.Status, a.Err)
	}
	if got := <-came; got.body != "0123456789" || got.err != nil {
		t.Errorf("finish sent %q, %v", got.body, got.err)
	}
	if a := begin().Leave(); !errors.Is(a.Err, errAbandoned) {
		t.Errorf("leave: %v", a.Err)
	}
	if got := <-came; got.body != "0123456789" || got.err != nil {
		t.Errorf("leave sent %q, %v", got.body, got.err)
	}
	if a := begin().Abort(); !errors.Is(a.Err, errAbandoned) {
		t.Errorf("abort: %v", a.Err)
	}
	if got := <-came; got.err == nil {
		t.Errorf("abort sent the whole body: %q", got.body)
	}
}
