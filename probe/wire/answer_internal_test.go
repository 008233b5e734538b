package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a server sends, what net/http reads as an answer is read as the same one, with the lines of its header as
// they came, and no more is kept than the limits say. Seen to fail with the limit taken out of readLine, and with 1xx
// returned by readAnswer.
func FuzzAnswer(f *testing.F) {
	for _, raw := range []string{
		"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX: 1\r\nX:  2 \r\n\r\nhi",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\n\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n1\r\na\r\n0\r\nT: 1\r\n\r\n", "HTTP/1.1 2",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", "HTTP/1.1 101 x\r\n\r\n",
		"x\r\n",
	} {
		f.Add([]byte(raw), "/a~1b/0")
	}
	endless := strings.Repeat("x", 2*maxHead)
	f.Add([]byte("HTTP/1.1 200 OK\r\nX: "+endless), "")
	f.Fuzz(func(t *testing.T, raw []byte, pointer string) {
		from := bytes.NewReader(raw)
		c := &Conn{in: bufio.NewReader(from)}
		a := c.read(http.MethodPost)
		if took := len(raw) - from.Len(); a.Err != nil && strings.Contains(a.Err.Error(), "does not end") &&
			took > maxHead+8<<10 {
			t.Errorf("%d bytes were read of a head that does not end", took)
		}
		if a.Err != nil && len(a.Err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(a.Err.Error()))
		}
		_, _ = a.Decoded()
		if text, err := a.JSON(pointer); err == nil && !utf8.ValidString(text) {
			t.Errorf("%q at %q", text, pointer)
		}
		_ = a.Misframed()
		in := bufio.NewReader(bytes.NewReader(raw))
		for {
			want, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
			if err != nil {
				return
			}
			if want.StatusCode < 200 && want.StatusCode != http.StatusSwitchingProtocols {
				continue
			}
			body, bodyErr := io.ReadAll(want.Body)
			if !strings.HasPrefix(want.Proto, "HTTP/1.") || len(raw) > maxHead || want.StatusCode < 100 {
				return
			}
			if a.Err != nil && strings.Contains(a.Err.Error(), "a response cannot begin with") {
				return // net/http is lenient with white space
			}
			if a.Status != want.StatusCode || !bytes.Equal(a.Body, body) || (bodyErr == nil) != (a.Err == nil) {
				t.Fatalf("%q: %d, %q, %v; want %d, %q, %v", raw, a.Status, a.Body, a.Err, want.StatusCode, body, bodyErr)
			}
			for name, values := range want.Header {
				if got := a.Values(name); len(got) != len(values) && name != "Transfer-Encoding" && name != "Content-Length" {
					t.Errorf("%q: %s is %q, want %q", raw, name, got, values)
				}
			}
			return
		}
	})
}
