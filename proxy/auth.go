package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

const (
	defaultAuthTimeout = 5 * time.Second
	maxAuthBody        = 64 << 10
)

// authorizer asks another server whether a caller may still call, because a stored answer is replayed without the
// upstream that would check the credential. A nil authorizer allows everything.
type authorizer struct {
	url            *url.URL
	client         http.Client
	timeout        time.Duration
	trustForwarded bool
}

// newAuthorizer returns the authorizer for Options.AuthURL; nil if there is none.
func newAuthorizer(o Options) (*authorizer, error) {
	u := o.AuthURL
	switch {
	case u == nil:
		return nil, nil
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, errors.New("proxy: AuthURL must be an http:// or https:// URL with a host, and without user and fragment")
	}
	return &authorizer{
		url:            u,
		timeout:        defaultAuthTimeout,
		trustForwarded: o.Upstream.TrustForwarded,
		client: http.Client{
			Transport:     newTransport(Upstream{URL: u}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// authRefusal is why a request may not continue. It answers the request.
type authRefusal struct {
	reason error
	http.Handler
}

// Error returns the reason.
func (r *authRefusal) Error() string { return r.reason.Error() }

// newAuthRefusal returns a refusal that is answered by a function.
func newAuthRefusal(answer func(w http.ResponseWriter), reason error) *authRefusal {
	return &authRefusal{reason, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) })}
}

// refuse returns nil if a request may continue. Otherwise it has answered, and returns the reason.
func (a *authorizer) refuse(w http.ResponseWriter, r *http.Request, options *httpsafe.Options) error {
	refusal := a.ask(r, options)
	if refusal == nil {
		return nil
	}
	refusal.ServeHTTP(w, r)
	return refusal.reason
}

// ask returns nil if a request may continue.
func (a *authorizer) ask(r *http.Request, options *httpsafe.Options) *authRefusal {
	if a == nil {
		return nil
	}
	unavailable := func(w http.ResponseWriter) { writeProblem(options, w, AuthUnavailable) }
	// The context of the request ends also when its client has only closed its sending half and still reads.
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), a.timeout)
	defer stop()
	res, err := a.client.Do(a.question(ctx, r))
	if err != nil {
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err // without the address, whose query may be a secret
		}
		return newAuthRefusal(unavailable, fmt.Errorf("AuthURL: %w", err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAuthBody+1)) // so that the connection can be used again
	reason := fmt.Errorf("AuthURL answered %d", res.StatusCode)
	switch {
	case 200 <= res.StatusCode && res.StatusCode <= 299:
		return nil
	case err == nil && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden):
		return newAuthRefusal(func(w http.ResponseWriter) { passOn(w, res, body) }, reason)
	}
	return newAuthRefusal(unavailable, reason)
}

// question returns the request that asks about r: the header of r, without the fields that belong to its connection
// or its body, and without conditions that would change the answer.
func (a *authorizer) question(ctx context.Context, r *http.Request) *http.Request {
	q := (&http.Request{Method: http.MethodGet, URL: a.url, Host: a.url.Host, Header: r.Header.Clone()}).WithContext(ctx)
	removeHopByHop(q.Header)
	for name := range q.Header {
		if strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "If-") || name == "Expect" || name == "Range" {
			delete(q.Header, name)
		}
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		delete(q.Header, name)
	}
	setForwarded(&httputil.ProxyRequest{In: r, Out: q}, a.trustForwarded)
	removeImitations(q.Header, "X-Forwarded-Method", "X-Forwarded-Uri")
	q.Header.Set("X-Forwarded-Method", r.Method)
	q.Header.Set("X-Forwarded-Uri", r.URL.RequestURI())
	if _, ok := q.Header["User-Agent"]; !ok {
		q.Header["User-Agent"] = nil // not that of net/http
	}
	return q
}

// passOn answers as the authorizing server has. A body that is too large is left out.
func passOn(w http.ResponseWriter, res *http.Response, body []byte) {
	if len(body) > maxAuthBody {
		body = nil
		res.Header.Del("Content-Encoding")
	}
	removeHopByHop(res.Header)
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	w.Write(body)
}

// removeHopByHop removes the fields that belong to a connection (RFC 9110, section 7.6.1).
func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings",
	} {
		delete(h, name)
	}
}

// guard returns a handler that asks before it calls next.
func (a *authorizer) guard(next http.Handler, options *httpsafe.Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.refuse(w, r, options) == nil {
			next.ServeHTTP(w, r)
		}
	})
}

func (a *authorizer) closeIdleConnections() {
	if a != nil {
		a.client.CloseIdleConnections()
	}
}
