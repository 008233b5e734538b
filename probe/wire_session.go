package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// session is a connection that several requests are made on, one after the other.
type session struct {
	*connection
	wire *wire
	stop func() bool // stops watching the context
}

// rawAnswer is an Answer with the header lines as they were on the wire.
type rawAnswer struct {
	Answer
	lines []HeaderLine
	// closing: the server has said that it ends the connection.
	closing bool
}

// open connects for several requests.
func (t *Trial) open() (*session, error) {
	c, err := t.run.wire.connect(t.ctx, t.run.wire.tls)
	if err != nil {
		return nil, err
	}
	return &session{c, t.run.wire, context.AfterFunc(t.ctx, c.abort)}, nil
}

func (s *session) end() {
	s.stop()
	_ = s.Close()
}

// send makes a request and reads the answer.
func (s *session) send(ctx context.Context, r Request) rawAnswer {
	sent := time.Now()
	if err := s.writeHead(ctx, r); err != nil {
		return rawAnswer{Answer: Answer{Err: err, SentAt: sent, EndedAt: time.Now(), Connection: s.no}}
	}
	_, writeErr := s.Write(r.framed())
	a := s.read(r.Method)
	if a.Status == 0 && writeErr != nil {
		a.Err = writeErr
	}
	a.SentAt = sent
	return a
}

// writeHead sends a request up to its body.
func (s *session) writeHead(ctx context.Context, r Request) error {
	if err := s.wire.meter.spend(ctx); err != nil {
		return err
	}
	if err := s.SetDeadline(time.Now().Add(s.wire.limits.Timeout)); err != nil {
		return err
	}
	_, err := s.Write(r.head(s.wire.host))
	return err
}

// read reads responses up to the final one.
func (s *session) read(method string) (a rawAnswer) {
	for {
		head, err := s.readHead()
		if err != nil {
			a.Err, a.EndedAt, a.Connection = fmt.Errorf("no response: %w", err), time.Now(), s.no
			return a
		}
		if !head.interim() {
			informed := a.Informed
			a = s.readBody(head, method)
			a.Informed = informed
			return a
		}
		a.Informed = append(a.Informed, head.status)
	}
}

// head is what a response begins with.
type head struct {
	raw    []byte
	status int
	lines  []HeaderLine
}

func (h head) interim() bool { return h.status < 200 && h.status != http.StatusSwitchingProtocols }

// maxHead bounds what is read of a head.
const maxHead = 256 << 10

// readHead reads a response up to its body.
func (s *session) readHead() (h head, err error) {
	for {
		line, err := s.in.ReadBytes('\n')
		h.raw = append(h.raw, line...)
		if err != nil && len(h.raw) > 0 {
			return h, fmt.Errorf("it breaks off in its head, %q", trimmed(h.raw, 60))
		}
		if err != nil {
			return h, err
		}
		if len(h.raw) > maxHead {
			return h, errors.New("the head of the response does not end")
		}
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case h.status == 0:
			if h.status = statusOf(text); h.status == 0 {
				return h, fmt.Errorf("%q is not how a response begins", trimmed(line, 60))
			}
		case text == "":
			return h, nil
		default:
			name, value, _ := strings.Cut(text, ":")
			h.lines = append(h.lines, HeaderLine{name, strings.TrimSpace(value)})
		}
	}
}

// statusOf reads a status line; 0: it is none.
func statusOf(line string) int {
	version, rest, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(version, "HTTP/1.") || len(rest) < 3 {
		return 0
	}
	status, err := strconv.Atoi(rest[:3])
	if err != nil {
		return 0
	}
	return status
}

// readBody reads what follows a head.
func (s *session) readBody(h head, method string) (a rawAnswer) {
	defer func() { a.EndedAt, a.Connection = time.Now(), s.no }()
	a.lines, a.Status = h.lines, h.status
	s.in = bufio.NewReader(io.MultiReader(bytes.NewReader(h.raw), s.in))
	closing, err := a.read(s.in, method)
	if err != nil {
		a.Err = fmt.Errorf("no valid response: %w", err)
	}
	a.closing = closing
	return a
}

// silent waits for a response without reading it, and reports whether none came in that time.
func (s *session) silent(patience time.Duration) bool {
	if s.SetReadDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	defer func() { _ = s.SetReadDeadline(time.Now().Add(s.wire.limits.Timeout)) }()
	_, err := s.in.Peek(1)
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// rest is what is still there when the server has ended the connection.
func (s *session) rest() []byte {
	_ = s.SetReadDeadline(time.Now().Add(time.Second))
	b, _ := io.ReadAll(io.LimitReader(s.in, 4096))
	return b
}

// hungUp reports whether the server ended the connection instead of an answer.
func hungUp(err error) bool {
	var broken *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &broken) && !broken.Timeout()
}

// values are the header lines of that name.
func (a rawAnswer) values(name string) (all []string) {
	for _, h := range a.lines {
		if strings.EqualFold(h.Name, name) {
			all = append(all, h.Value)
		}
	}
	return all
}

// misframed says what is wrong with how an answer is framed (RFC 9112 §6).
func (a rawAnswer) misframed() (all []string) {
	lengths, codings := a.values("Content-Length"), a.values("Transfer-Encoding")
	if a.Err != nil {
		all = append(all, a.Err.Error())
	}
	if len(lengths) > 0 && len(codings) > 0 {
		all = append(all, "it has a Content-Length and a Transfer-Encoding")
	}
	if len(lengths) > 1 {
		all = append(all, "it has "+plural(len(lengths), "Content-Length line"))
	}
	if n := len(codings); n > 0 && !strings.HasSuffix(strings.ToLower(codings[n-1]), "chunked") {
		all = append(all, "its Transfer-Encoding does not end with chunked")
	}
	if a.Status == http.StatusNoContent && len(lengths)+len(codings) > 0 {
		all = append(all, "it is 204 and has a Content-Length or a Transfer-Encoding")
	}
	if len(a.Rest) > 0 {
		all = append(all, fmt.Sprintf("%d bytes follow it: %q", len(a.Rest), trimmed(a.Rest, 60)))
	}
	return all
}
