//go:build linux

package load

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// crowd are all clients of the proxies of a run.
type crowd struct {
	*testing.T
	api     *api
	proxies [2]string // URLs
	client  *http.Client
	shared  bool // the proxies share a store, so that each takes every key
	waiters int  // for a hot key
	// limit is how long a client sends a key again. After the retention the key would be free.
	limit time.Duration
	Counts
}

// Counts is what clients and the harness have done.
type Counts struct {
	Keys, Answers, Unknown, Refused  atomic.Int64
	LeftInRequest, LeftInAnswer      atomic.Int64
	HotKeys, HotAnswers, Large       atomic.Int64
	Slowloris, Stalled, GiantHeaders atomic.Int64
	Reloads, Kills                   atomic.Int64
	SlowestCut, MostHeaderBytes      atomic.Int64
}

// hotRounds lets the runs have their hot keys one after the other: the connections of ten thousand clients are half
// of the files that a process may usually open.
var hotRounds sync.Mutex

// generate calls f again and again, from so many goroutines, until the traffic ends.
func (c *crowd) generate(ctx context.Context, all *sync.WaitGroup, n int, pause time.Duration, f func()) {
	for range n {
		all.Go(func() {
			for rest(ctx, mathrand.N(2*pause)) {
				f()
			}
		})
	}
}

// rest waits, and returns false if the traffic has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// request is a request with a key.
func (c *crowd) request(proxy int, key, body string, size int) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.proxies[proxy]+"/orders", strings.NewReader(body))
	if err != nil {
		c.Error(err)
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Answer-Size", strconv.Itoa(size))
	return r
}

// send sends a request, and returns the status and the whole answer.
func (c *crowd) send(r *http.Request) (int, string, error) {
	answer, err := c.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// ask sends a key until it has the answer, or is told that the outcome is unknown.
func (c *crowd) ask(key, body string, size int) {
	var code int
	var text string
	var err error
	for began := time.Now(); time.Since(began) < c.limit; time.Sleep(20 * time.Millisecond) {
		code, text, err = c.send(c.request(c.proxyOf(key), key, body, size))
		switch {
		case err != nil || code == http.StatusRequestTimeout: // the process was killed, or this one stood still
		case code == http.StatusCreated:
			c.Answers.Add(1)
			if err := c.api.gave(key, text); err != nil {
				c.Error(err)
			}
			return
		case strings.Contains(text, "outcome-unknown"):
			c.Unknown.Add(1)
			if !c.shared && c.proxyOf(key) == 0 {
				c.Errorf("the outcome of %s is unknown, and its process was not killed", key)
			}
			return
		case code == http.StatusConflict || code == http.StatusServiceUnavailable:
			c.Refused.Add(1)
		default:
			c.Errorf("%s is refused: %d %.300s", key, code, text)
			return
		}
	}
	c.Errorf("%s has no answer after %v: %d %.300s, %v", key, c.limit, code, text, err)
}

// key returns a new key.
func (c *crowd) key() string {
	c.Keys.Add(1)
	return rand.Text()
}

// proxyOf returns a proxy that takes a key.
func (c *crowd) proxyOf(key string) int {
	if c.shared {
		return mathrand.IntN(len(c.proxies))
	}
	return int(key[0]) % len(c.proxies)
}

// fresh sends a new key, two times at once and once more.
func (c *crowd) fresh() {
	key, body := c.key(), `{"amount":1}`
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { c.ask(key, body, 0) })
	}
	both.Wait()
	c.ask(key, body, 0)
}

// large sends a body of a mebibyte, and again.
func (c *crowd) large() {
	key, body := c.key(), `"`+strings.Repeat("x", 1<<20-2)+`"`
	c.ask(key, body, 64<<10)
	c.ask(key, body, 64<<10)
	c.Large.Add(1)
}

// raw calls f with a connection to a proxy.
func (c *crowd) raw(proxy int, f func(net.Conn) error) error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.proxies[proxy], "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	return errors.Join(conn.SetDeadline(time.Now().Add(patience)), f(conn))
}

// leavesInRequest leaves when a part of the body was sent, or all of it, and comes again.
func (c *crowd) leavesInRequest() {
	key, body := c.key(), `{"amount":1}`
	_ = c.raw(c.proxyOf(key), func(conn net.Conn) error {
		_, err := fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", key, len(body), body[:1+mathrand.IntN(len(body))])
		return err
	})
	c.LeftInRequest.Add(1)
	c.ask(key, body, 0)
}

// leavesInAnswer leaves when it has read some of the answer, and comes again.
func (c *crowd) leavesInAnswer() {
	key, body := c.key(), `{"amount":1}`
	if answer, err := c.client.Do(c.request(c.proxyOf(key), key, body, 256<<10)); err == nil {
		_, _ = io.CopyN(io.Discard, answer.Body, 1000)
		answer.Body.Close()
		c.LeftInAnswer.Add(1)
	}
	c.ask(key, body, 256<<10)
}

// hot has all waiters wait for one key at the process that lives, and then lets the API answer. A waiter is a connection
// and not a goroutine: under the race detector a process can have only 8,128 of these.
func (c *crowd) hot() {
	hotRounds.Lock()
	defer hotRounds.Unlock()
	key := "B" + c.key() // also proxyOf says then that it is the process that lives
	release := c.api.hold(key)
	defer release()
	waiting := make([]net.Conn, 0, c.waiters)
	defer func() {
		for _, conn := range waiting {
			conn.Close()
		}
	}()
	for range c.waiters {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.proxies[0], "http://"))
		if err != nil {
			c.Errorf("a waiter for a hot key: %v", err)
			return
		}
		waiting = append(waiting, conn)
		_, _ = fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: %s\r\n"+
			"Connection: close\r\nContent-Length: 2\r\n\r\n{}", key) // isAnswered tells if it is cut off
	}
	release()
	cut := 0
	for _, conn := range waiting {
		switch err := c.isAnswered(conn, key); {
		case errors.Is(err, errCut):
			cut++
			c.ask(key, "{}", 0)
		case err != nil:
			c.Errorf("a waiter for a hot key: %v", err)
		default:
			c.HotAnswers.Add(1)
		}
	}
	if cut > c.waiters/2 {
		c.Errorf("%d of %d waiters for a hot key were cut off", cut, c.waiters)
	}
	c.HotKeys.Add(1)
}

// errCut says that a client was cut off. A few are if the machine stands still for longer than the proxies' timeouts.
var errCut = errors.New("cut off")

// isAnswered returns nil if the answer that a connection waits for is that of the API.
func (c *crowd) isAnswered(conn net.Conn, key string) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errCut
	case err != nil:
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusRequestTimeout {
		return errCut
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%d %.300s", answer.StatusCode, text)
	}
	return errors.Join(err, c.api.gave(key, string(text)))
}

// cutOff notes how long the process that lives has served a slow client. An error says that it was not cut off.
func (c *crowd) cutOff(what string, counted *atomic.Int64, f func(net.Conn) error) {
	began := time.Now()
	if err := c.raw(0, f); errors.Is(err, os.ErrDeadlineExceeded) {
		c.Errorf("%s is not cut off after %v: %v", what, patience, err)
		return
	}
	counted.Add(1)
	raise(&c.SlowestCut, time.Since(began).Milliseconds())
}

// raise sets v to n if that is more.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// slowloris sends a header byte by byte.
func (c *crowd) slowloris() {
	c.cutOff("slowloris", &c.Slowloris, func(conn net.Conn) error {
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, conn)
			ended <- err
		}()
		_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		for {
			select {
			case err := <-ended:
				return err
			case <-time.After(100 * time.Millisecond):
				_, _ = io.WriteString(conn, "x")
			}
		}
	})
}

// stalled announces a body, and sends a part of it.
func (c *crowd) stalled() {
	c.cutOff("a stalled upload", &c.Stalled, func(conn net.Conn) error {
		_, _ = fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\n"+
			"Content-Length: 1048576\r\n\r\n%s", rand.Text(), strings.Repeat("x", 20_000))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && answer.StatusCode != http.StatusRequestTimeout {
			c.Errorf("a stalled upload is answered %d", answer.StatusCode)
		}
		return err
	})
}

// giantHeader sends a header that does not end, and notes how much of it was taken.
func (c *crowd) giantHeader() {
	c.cutOff("a giant header", &c.GiantHeaders, func(conn net.Conn) error {
		const most = 64 << 20
		sent, err := io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nX-Giant: ")
		for part := strings.Repeat("x", 32<<10); err == nil && sent < most; {
			var n int
			n, err = io.WriteString(conn, part)
			sent += n
		}
		if sent >= most {
			c.Errorf("a header of %d bytes was taken", sent)
		}
		raise(&c.MostHeaderBytes, int64(sent))
		return err
	})
}
