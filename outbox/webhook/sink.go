package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/outbox"
)

// Endpoint is the receiver of a webhook. Give every endpoint its own secrets, so that one receiver cannot sign
// messages for another.
type Endpoint struct {
	URL     string
	Secrets Secrets
}

// EndpointFunc returns the endpoint of a message, for example by its Topic. If it returns an error, the message is
// retried, or becomes a dead letter if the error is wrapped by outbox.Permanent. It is called concurrently.
type EndpointFunc func(ctx context.Context, m outbox.Delivery) (Endpoint, error)

// To returns an EndpointFunc that sends every message to one endpoint.
func To(url string, secrets Secrets) EndpointFunc {
	return func(context.Context, outbox.Delivery) (Endpoint, error) { return Endpoint{url, secrets}, nil }
}

// SinkOptions are the options of NewSink. SinkOptions{} works.
type SinkOptions struct {
	// AllowPrivate allows endpoints whose address is not public, such as loopback, private and link-local ones.
	// Default: the sink refuses them when it connects, whatever the host name, so that a customer who chooses the URL
	// cannot reach your internal network.
	AllowPrivate bool
	// AllowHTTP allows endpoints without TLS. Default: https only.
	AllowHTTP bool
	// Timeout is the timeout of one request. Default 20 seconds.
	Timeout time.Duration
	// Concurrency is the maximum number of webhooks of a batch that are sent at once. Default 8.
	Concurrency int
	// Transport replaces the sink's transport, which uses no proxy. AllowPrivate has no effect on it.
	Transport http.RoundTripper
}

// StatusError is the error of a delivery that the endpoint answered with a status other than 2xx.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	text := fmt.Sprintf("webhook: the endpoint answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Status/100 == 3 {
		text += "; redirects are not followed"
	}
	return text
}

// sink posts each message to its endpoint.
type sink struct {
	endpoint EndpointFunc
	client   *http.Client
	https    bool // plain http is refused
}

// NewSink returns a Sink that signs each message and posts it to its endpoint.
//
// The message's Key becomes webhook-id and must not contain a full stop. The message's Header becomes request
// headers, except names that belong to HTTP framing or to the signature. Content-Type is application/json unless the
// Header sets it.
//
// A 2xx answer means that the message is sent. 410 Gone makes it a dead letter. After any other answer, including
// redirects, it is retried, not before the time in Retry-After. A message with an unusable endpoint (a URL that is
// not https, no secret that can sign) becomes a dead letter.
func NewSink(endpoint EndpointFunc, o SinkOptions) outbox.Sink {
	transport := o.Transport
	if transport == nil {
		transport = newTransport(o.AllowPrivate)
	}
	s := &sink{endpoint: endpoint, https: !o.AllowHTTP, client: &http.Client{
		Transport:     transport,
		Timeout:       cmp.Or(o.Timeout, 20*time.Second),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return outbox.Each(cmp.Or(o.Concurrency, 8), s.send)
}

func (s *sink) send(ctx context.Context, m outbox.Delivery) error {
	to, err := s.endpoint(ctx, m)
	if err != nil {
		return err
	}
	r, err := s.request(ctx, to, m)
	if err != nil {
		return outbox.Permanent(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer answer.Body.Close()
	// The body of the answer has no meaning. A little of it is read so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	return judge(answer)
}

// maxAnswer is the number of bytes of an answer that are read.
const maxAnswer = 16 << 10

// withoutURL removes the endpoint's URL from an error, because URLs may contain secrets.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("webhook: %w", err)
}

func (s *sink) request(ctx context.Context, to Endpoint, m outbox.Delivery) (*http.Request, error) {
	if strings.Contains(m.Key, ".") {
		return nil, errors.New("webhook: the key contains a full stop and cannot be signed")
	}
	u, err := url.Parse(to.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("webhook: the endpoint's URL is not a valid http or https URL")
	case u.Scheme == "http" && s.https:
		return nil, errors.New("webhook: the endpoint's URL is not https; SinkOptions.AllowHTTP allows http")
	}
	now := time.Now()
	signature := to.Secrets.Sign(m.Key, now, m.Body)
	if signature == "" {
		return nil, errors.New("webhook: the endpoint has no secret that can sign")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, withoutURL(err)
	}
	r.GetBody = nil // the relay counts tries, so net/http must not resend the request by itself
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "retrysafe-webhook")
	for name, value := range m.Header {
		if !isOurs(name) {
			r.Header.Set(name, value)
		}
	}
	r.Header.Set(HeaderID, m.Key)
	r.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(HeaderSignature, signature)
	return r, nil
}

// isOurs reports whether a header name belongs to HTTP framing or to the webhook itself.
func isOurs(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Webhook-")
}

// judge turns an answer into the result of the delivery.
func judge(answer *http.Response) error {
	if answer.StatusCode/100 == 2 {
		return nil
	}
	err := &StatusError{answer.StatusCode}
	if answer.StatusCode == http.StatusGone {
		return outbox.Permanent(err)
	}
	if d := retry.After(answer.Header, time.Now()); d > 0 {
		return outbox.RetryAfter(err, d)
	}
	return err
}
