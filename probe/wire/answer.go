package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Answer is what came back for a request, or why nothing did.
type Answer struct {
	Status  int // 0: none came
	Header  http.Header
	Lines   []HeaderLine // the header as it was on the wire
	Body    []byte       // as it came, not decoded
	Trailer http.Header
	// Informed are the statuses of the 1xx responses before it.
	Informed []int
	// Closing: the server has said that it ends the connection.
	Closing bool
	// Err says why there is no answer, or only a part of one: refused, reset, timed out, badly framed.
	Err error
	// Rest is what the server sent behind the answer, on a connection that it should have been silent on.
	Rest []byte

	SentAt, EndedAt time.Time
	// Connection is the number of the connection that it came by; 0: there was none.
	Connection int
	// No is the number of the exchange in the timeline of the case.
	No int
}

// OK reports a 2xx.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// ServerError reports a 5xx.
func (a Answer) ServerError() bool { return a.Status >= 500 }

// Same reports whether both have the same status and the same bytes, whatever coding they came in.
func (a Answer) Same(b Answer) bool {
	return a.Status == b.Status && (bytes.Equal(a.Body, b.Body) || bytes.Equal(a.Plain(), b.Plain()))
}

// MediaType returns the media type of the body, without parameters.
func (a Answer) MediaType() string {
	t, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return t
}

// Coding returns how the body is compressed, in lower case, or "" if it is not.
func (a Answer) Coding() string {
	c := strings.ToLower(a.Header.Get("Content-Encoding"))
	if c == "identity" {
		return ""
	}
	return c
}

// Plain returns the body without its coding. If the coding cannot be undone, it returns the body as it came.
func (a Answer) Plain() []byte {
	if body, err := a.Decoded(); err == nil {
		return body
	}
	return a.Body
}

// Decoded returns the body without its coding. It returns an error if the coding is neither none nor gzip, or if the
// body does not match it.
func (a Answer) Decoded() ([]byte, error) {
	looksLikeGzip := bytes.HasPrefix(a.Body, []byte{0x1f, 0x8b})
	switch c := a.Coding(); {
	case c == "" && looksLikeGzip && !strings.Contains(a.MediaType(), "zip"):
		return nil, errors.New("it is gzip, but has no Content-Encoding")
	case c == "" || len(a.Body) == 0:
		return a.Body, nil
	case c != "gzip":
		return nil, fmt.Errorf("Content-Encoding %s was not asked for", c)
	}
	z, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		return nil, fmt.Errorf("Content-Encoding is gzip, but the body is not: %w", err)
	}
	return io.ReadAll(io.LimitReader(z, maxBody))
}

// JSON returns what is at a JSON pointer (RFC 6901) of the body, as text: strings without quotes, numbers as they are
// written. It returns an error if the body is not JSON, or has nothing there.
func (a Answer) JSON(pointer string) (string, error) { return AtPointer(a.Plain(), pointer) }

// AtPointer returns what is at a JSON pointer of a text, as Answer.JSON does.
func AtPointer(body []byte, pointer string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", errors.New("the body is not JSON")
	}
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return "", errors.New("the body has nothing at " + pointer)
			}
			v = at[i]
		default:
			v = nil
		}
	}
	switch v := v.(type) {
	case nil:
		return "", errors.New("the body has nothing at " + pointer)
	case string:
		return v, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// Values returns the values of all header lines of that name, as they were on the wire.
func (a Answer) Values(name string) (all []string) {
	for _, h := range a.Lines {
		if strings.EqualFold(h.Name, name) {
			all = append(all, h.Value)
		}
	}
	return all
}

// Misframed says what is wrong with how an answer is framed (RFC 9112 §6); none if nothing is.
func (a Answer) Misframed() (all []string) {
	lengths, codings := a.Values("Content-Length"), a.Values("Transfer-Encoding")
	if a.Err != nil {
		all = append(all, a.Err.Error())
	}
	if len(lengths) > 0 && len(codings) > 0 {
		all = append(all, "it has a Content-Length and a Transfer-Encoding")
	}
	if len(lengths) > 1 {
		all = append(all, fmt.Sprintf("it has %d Content-Length lines", len(lengths)))
	}
	if n := len(codings); n > 0 && !strings.HasSuffix(strings.ToLower(codings[n-1]), "chunked") {
		all = append(all, "its Transfer-Encoding does not end with chunked")
	}
	if a.Status == http.StatusNoContent && len(lengths)+len(codings) > 0 {
		all = append(all, "it is a 204 with a Content-Length or a Transfer-Encoding")
	}
	if len(a.Rest) > 0 {
		all = append(all, fmt.Sprintf("%d bytes follow it: %q", len(a.Rest), Shorten(a.Rest, 60)))
	}
	return all
}

// Shorten returns the beginning of a body as text, and its length if that is more than limit.
func Shorten(body []byte, limit int) string {
	if len(body) <= limit {
		return string(bytes.ToValidUTF8(body, []byte("·")))
	}
	return string(bytes.ToValidUTF8(body[:limit], []byte("·"))) + fmt.Sprintf("… (%d bytes)", len(body))
}

const (
	maxBody = 64 << 20  // of an answer's body is read
	maxHead = 256 << 10 // of its head
)

// read reads responses up to the final one.
func (c *Conn) read(method string) Answer { return c.readAnswer(method, func(int) {}) }

// readAnswer reads responses up to the final one, and passes the status of each 1xx to informed.
func (c *Conn) readAnswer(method string, informed func(status int)) (a Answer) {
	var before []int
	for {
		raw, status, err := c.readHead(&a)
		switch {
		case err != nil:
			return Answer{Err: fmt.Errorf("no response: %w", err), Informed: before}
		case status >= 200 || status == http.StatusSwitchingProtocols:
			a.Informed = before
			c.readBody(&a, raw, method)
			return a
		}
		before = append(before, status)
		informed(status)
	}
}

// readHead reads a response up to its body, and keeps its lines.
func (c *Conn) readHead(a *Answer) (raw []byte, status int, err error) {
	for a.Lines = nil; ; {
		line, err := c.readLine(maxHead - len(raw))
		raw = append(raw, line...)
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case len(raw) >= maxHead:
			return raw, 0, errors.New("the head of the response does not end")
		case err != nil && len(raw) > 0:
			return raw, 0, fmt.Errorf("it breaks off in its header section, %q", Shorten(raw, 60))
		case err != nil:
			return raw, 0, err
		case status == 0:
			if status = statusOf(text); status == 0 {
				return raw, 0, fmt.Errorf("a response cannot begin with %q", Shorten(line, 60))
			}
		case text == "":
			return raw, status, nil
		default:
			name, value, _ := strings.Cut(text, ":")
			a.Lines = append(a.Lines, HeaderLine{name, strings.TrimSpace(value)})
		}
	}
}

// readLine reads a line with its end, and no more than limit bytes of it, give or take a buffer: a server that never
// ends its line must not fill the memory.
func (c *Conn) readLine(limit int) (line []byte, err error) {
	for {
		part, err := c.in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) >= limit {
			return line, err
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

// readBody reads what follows a head, which net/http reads once more to know the framing.
func (c *Conn) readBody(a *Answer, head []byte, method string) {
	c.in = bufio.NewReader(io.MultiReader(bytes.NewReader(head), c.in))
	r, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		a.Err = fmt.Errorf("no valid response: %w", shortened(err))
		return
	}
	defer func() { _ = r.Body.Close() }()
	a.Header, a.Closing = r.Header, r.Close
	for _, coding := range r.TransferEncoding {
		a.Header.Add("Transfer-Encoding", coding)
	}
	a.take(r)
}

// shortened returns an error whose text fits a report: some of net/http quote a line of the response.
func shortened(err error) error {
	const most = 300
	if text := err.Error(); len(text) > most {
		return errors.New(Shorten([]byte(text), most))
	}
	return err
}

// take reads the body and the trailer of a response, which its caller closes. A body that breaks off leaves a part of it, and Err says so.
func (a *Answer) take(r *http.Response) {
	var err error
	a.Status = r.StatusCode
	if a.Body, err = io.ReadAll(io.LimitReader(r.Body, maxBody)); err != nil {
		a.Err = fmt.Errorf("the body breaks off after %d bytes: %w", len(a.Body), shortened(err))
	}
	a.Trailer = r.Trailer
}
