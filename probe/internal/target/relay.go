package target

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/textproto"
	"strings"
	"testing"
)

// StartExact serves an API through something that knows its header by one spelling only: a line with any other is
// lost. It returns the address of that.
func StartExact(t testing.TB, header string, faults ...Fault) (*API, string) {
	t.Helper()
	api, server := Start(t, faults...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go relay(conn, server.Listener.Addr().String(), header)
		}
	}()
	return api, "http://" + l.Addr().String()
}

// relay hands one request on, and what is answered.
func relay(client net.Conn, to, header string) {
	defer func() { _ = client.Close() }()
	api, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = api.Close() }()
	in := bufio.NewReader(client)
	var head bytes.Buffer
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		name, _, _ := strings.Cut(line, ":")
		if textproto.CanonicalMIMEHeaderKey(name) != header || name == header {
			head.WriteString(line)
		}
		if line == "\r\n" {
			break
		}
	}
	if _, err := api.Write(head.Bytes()); err != nil {
		return
	}
	go func() { _, _ = io.Copy(api, in) }()
	_, _ = io.Copy(client, api)
}
