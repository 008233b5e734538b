// Package load sends HTTP/1.1 POST requests over a fixed number of connections, each as soon as the previous answer
// has arrived. It writes prepared bytes and parses only what it needs of the answer, so that most of a small
// machine's time is left to the measured server.
package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
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
	Requests int
	Took     time.Duration
	// Latencies are in nanoseconds and unordered.
	Latencies []int64
}

// PerSecond returns the number of answered requests per second.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Took.Seconds() }

// keyBytes is the length of a key, equal to that of a UUID.
const keyBytes = 36

// Run sends requests over connections until d has passed, or, if count is above 0, until count requests were sent. It
// returns an error if any answer is not 2xx.
func Run(t Target, k Keys, connections int, d time.Duration, count int) (Result, error) {
	clients := make([]*client, connections)
	for i := range clients {
		c, err := dial(t)
		if err != nil {
			return Result{}, err
		}
		defer c.conn.Close()
		c.keys, c.first, c.step, c.left = k, i, connections, share(count, i, connections)
		clients[i] = c
	}
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range clients {
		wg.Go(func() { c.err = c.run(began.Add(d), count > 0) })
	}
	wg.Wait()
	all := Result{Took: time.Since(began)}
	var errs []error
	for _, c := range clients {
		all.Requests += len(c.took)
		all.Latencies = append(all.Latencies, c.took...)
		errs = append(errs, c.err)
	}
	return all, errors.Join(errs...)
}

// share returns the number of requests, of count in total, that the i-th of n connections sends.
func share(count, i, n int) int { return (count + n - 1 - i) / n }

// client is one connection.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	keyAt   int // position of the key in request; 0 if there is none

	keys        Keys
	first, step int // the keys of this connection
	left        int // requests to send, if they are counted
	took        []int64
	err         error
}

func dial(t Target) (*client, error) {
	conn, err := net.Dial("tcp", t.Addr)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReader(conn)}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n",
		t.Path, t.Addr, len(t.Body))
	if t.KeyHeader != "" {
		head += t.KeyHeader + ": "
		quote := ""
		if t.Quoted {
			quote = `"`
		}
		c.keyAt = len(head) + len(quote)
		head += quote + string(bytes.Repeat([]byte("0"), keyBytes)) + quote + "\r\n"
	}
	c.request = []byte(head + "\r\n" + t.Body)
	return c, nil
}

func (c *client) run(end time.Time, counted bool) error {
	for n := 0; ; n++ {
		began := time.Now()
		if counted && n == c.left || !counted && !began.Before(end) {
			return nil
		}
		c.setKey(c.first + n*c.step)
		if _, err := c.conn.Write(c.request); err != nil {
			return err
		}
		if err := c.answer(); err != nil {
			return err
		}
		c.took = append(c.took, int64(time.Since(began)))
	}
}

func (c *client) setKey(n int) {
	if c.keyAt == 0 {
		return
	}
	if c.keys.Among > 0 {
		n %= c.keys.Among
	}
	key := fmt.Appendf(c.request[c.keyAt:c.keyAt], "%08x-0000-4000-8000-%012x", c.keys.Run, n)
	if len(key) != keyBytes {
		panic("load: a key of another length would shift the request")
	}
}

// answer reads one response.
func (c *client) answer() error {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(line) < 12 || line[9] != '2' {
		rest, _ := c.in.Peek(min(c.in.Buffered(), 2000))
		return fmt.Errorf("load: answer %q\n%s", bytes.TrimSpace(line), rest)
	}
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("load: an answer without Content-Length")
	}
	_, err = io.CopyN(io.Discard, c.in, int64(length))
	return err
}
