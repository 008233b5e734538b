package wire

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// says serves one connection: it reads a request and answers with text.
func says(t *testing.T, text string) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = conn.Write([]byte(text))
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

func TestSessionSeesHowAnswersAreFramed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ says, want string }{
		"right":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""},
		"informed": {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""},
		"chunked":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ""},
		"both framings": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Transfer-Encoding"},
		"two lengths":     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "no valid response"},
		"the same twice":  {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "2 Content-Length lines"},
		"too short":       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "breaks off"},
		"204 with length": {"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", "204"},
		"half a head":     {"HTTP/1.1 200 OK\r\nContent-Le", "breaks off in its head"},
		"no answer":       {"what?\r\n\r\n", "a response cannot begin with"},
	} {
		target := says(t, c.says)
		client := New(target, time.Minute, free{})
		s, err := client.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(s.Send(t.Context(), Request{Method: "POST", Path: "/"}).Misframed(), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		s.End()
	}
}

func TestSessionTellsHangingUpFromNonsense(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": true, "nonsense\r\n\r\n": false, "HTTP/1.1 200": false} {
		client := New(says(t, text), time.Minute, free{})
		s, err := client.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := s.Send(t.Context(), Request{Method: "POST", Path: "/"})
		if got := HungUp(a.Err); got != want {
			t.Errorf("after %q: hung up %v, want %v: %v", text, got, want, a.Err)
		}
		s.End()
	}
}
