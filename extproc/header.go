package extproc

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// newRequest returns the request that a message is about. Its body is read from body, if it has one.
func newRequest(m *message, body io.ReadCloser) (*http.Request, error) {
	h, pseudo := m.headerOf()
	r := &http.Request{
		Method: pseudo[":method"], Host: pseudo[":authority"], RequestURI: pseudo[":path"], Header: h, Body: http.NoBody,
		Proto: "HTTP/2.0", ProtoMajor: 2,
	}
	if r.Host == "" {
		r.Host = h.Get("Host")
	}
	delete(h, "Host")
	if r.Method == "" {
		return nil, errors.New("extproc: Envoy's message has no :method")
	}
	if r.Method == http.MethodConnect && r.RequestURI == "" {
		r.URL = &url.URL{Host: r.Host}
		return r, nil
	}
	var err error
	if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
		return nil, errTarget
	}
	if !m.end {
		r.Body, r.ContentLength = body, lengthOf(h)
	}
	return r, nil
}

var errTarget = errors.New("extproc: the request target cannot be parsed")

// lengthOf returns the Content-Length; -1 if there is none.
func lengthOf(h http.Header) int64 {
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

// isEnvoys reports whether only Envoy sets a field: those of a connection, of the length of a body, and those that say
// where a request came from, which it has set before it asks.
func isEnvoys(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		"Content-Length", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Host":
		return true
	}
	return strings.HasPrefix(name, http.TrailerPrefix) || strings.HasPrefix(name, "X-Envoy-")
}

// changes returns what makes one header the other.
func changes(from, to http.Header) (m mutation) {
	for _, name := range names(to) {
		isEmptied := len(from[name]) == 0 && len(to[name]) == 1 && to[name][0] == ""
		if !slices.Equal(from[name], to[name]) && !isEmptied {
			for _, value := range to[name] {
				m.set = append(m.set, field{strings.ToLower(name), value})
			}
		}
	}
	for _, name := range names(from) {
		if len(to[name]) == 0 {
			m.remove = append(m.remove, strings.ToLower(name))
		}
	}
	return m
}

// names returns the names of the fields that are not Envoy's, in order.
func names(h http.Header) []string {
	all := make([]string, 0, len(h))
	for name := range h {
		if !isEnvoys(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
