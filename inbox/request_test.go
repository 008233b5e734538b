package inbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
)

// A request that is accepted is delivered as it came, but for what request.go says is not saved: method, host, path,
// query, header and body. Seen to fail with the host left out of message, with the path of the URL in place of
// RequestURI, and with bytes that are not UTF-8 accepted.
func FuzzRequest(f *testing.F) {
	for _, head := range []string{
		"POST /hooks?a=b%20c HTTP/1.1\r\nHost: a.example\r\nX-Many: 1\r\nX-Many: 2\r\nContent-Type: text/plain",
		"POST http://b.example/%2F/x//y?%zz HTTP/1.1\r\nHost: a.example\r\nConnection: x-one, close\r\nX-One: 1\r\nCookie: c",
		"PUT //evil/../x;y=1? HTTP/1.0\r\nX: \xff", "OPTIONS * HTTP/1.1\r\nHost: a", "POST http:/x HTTP/1.1\r\nHost: a",
		"X /\xe9?\xe9 HTTP/1.1\r\nHost:",
	} {
		f.Add(head, []byte("body"), "id")
	}
	in := &Inbox{topic: "POST /hooks"}
	f.Fuzz(func(t *testing.T, head string, body []byte, id string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\r\n\r\n")))
		if err != nil || r.Method == http.MethodConnect {
			return
		}
		if r.URL.Path == "" && r.URL.Opaque == "" {
			r.URL.Path = "/" // which is the same (RFC 9112, section 3.2.1)
		}
		m, err := in.message(&httpsafe.Accepted{Key: retrysafe.Key{Scope: "s", ID: id}, Request: r, Body: body})
		if err != nil {
			return
		}
		column, err := json.Marshal(m.Header) // as an outbox keeps it
		m.Header = nil
		if err == nil {
			err = json.Unmarshal(column, &m.Header)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, d, err := request(t.Context(), outbox.Delivery{Message: m})
		if err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		if d.Key.ID != id || got.Method != r.Method || got.Host != r.Host || got.URL.EscapedPath() != r.URL.EscapedPath() ||
			got.URL.Path != r.URL.Path || got.URL.Opaque != r.URL.Opaque || got.URL.RawQuery != r.URL.RawQuery {
			t.Errorf("%q became %s %s %s", head, got.Method, got.Host, got.URL)
		}
		sent, err := io.ReadAll(got.Body)
		if err != nil || !bytes.Equal(sent, body) || got.ContentLength != int64(len(body)) {
			t.Errorf("%q became %q, %v", body, sent, err)
		}
		got.Header.Del(AcceptedHeader)
		for name, values := range r.Header {
			if got.Header[name] == nil && (slices.Contains(unsaved, name) ||
				strings.Contains(strings.ToLower(strings.Join(r.Header["Connection"], ",")), strings.ToLower(name))) {
				continue
			}
			if !slices.Equal(got.Header[name], values) {
				t.Errorf("%s: %q became %q", name, values, got.Header[name])
			}
		}
		for name := range got.Header {
			if r.Header[name] == nil || slices.Contains(unsaved, name) {
				t.Errorf("%s was delivered", name)
			}
		}
	})
}
