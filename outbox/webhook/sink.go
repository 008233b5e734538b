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

// Endpoint is where webhooks go. Every endpoint should have secrets of its own, so that a receiver cannot sign for another.
type Endpoint struct {
	URL     string
	Secrets Secrets
}

// EndpointFunc says where a message goes, by its Topic for one. An error is treated as a sink's: marked with outbox.Permanent it makes the message
// a dead letter, otherwise it is tried again.
type EndpointFunc func(ctx context.Context, m outbox.Delivery) (Endpoint, error)

// To sends everything to one endpoint.
func To(url string, secrets Secrets) EndpointFunc {
	return func(context.Context, outbox.Delivery) (Endpoint, error) { return Endpoint{url, secrets}, nil }
}

// SinkOptions of NewSink. SinkOptions{} works.
type SinkOptions struct {
	// AllowPrivate allows endpoints whose address is not public: loopback, private and link-local ones, and the like. Default: they are
	// refused when the connection is made, whatever name led there, so that who chooses a URL cannot reach what is inside.
	AllowPrivate bool
	// AllowHTTP allows endpoints without TLS. Default: https only.
	AllowHTTP bool
	// Timeout of one try. Default 20 seconds.
	Timeout time.Duration
	// Concurrency is how many webhooks of a batch are sent at once. Default 8.
	Concurrency int
	// Transport replaces the sink's own, which uses no proxy; AllowPrivate then means nothing.
	Transport http.RoundTripper
}

// StatusError says that an endpoint has answered with something else than 2xx.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	text := fmt.Sprintf("webhook: the endpoint answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Status/100 == 3 {
		text += "; redirects are not followed"
	}
	return text
}

// sink posts each message.
type sink struct {
	endpoint EndpointFunc
	client   *http.Client
	https    bool // only
}

// NewSink returns a Sink that posts each message to its endpoint, signed.
//
// The message's Key is webhook-id, and must not contain a full stop. Its Header goes along, but for what belongs to HTTP or to the
// signature; Content-Type is application/json unless it is there.
//
// 2xx means sent. 410 Gone makes the message a dead letter; everything else, redirects too, is tried again, not before Retry-After.
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
	// What it says is not looked at; a little of it is read so that the connection can be used again.
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	return judge(answer)
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 16 << 10

// withoutURL leaves out the endpoint's URL, which may have a secret in it.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("webhook: %w", err)
}

func (s *sink) request(ctx context.Context, to Endpoint, m outbox.Delivery) (*http.Request, error) {
	if strings.Contains(m.Key, ".") {
		return nil, errors.New("webhook: a key with a full stop cannot be signed")
	}
	u, err := url.Parse(to.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("webhook: the endpoint's URL is not one of http or https")
	case u.Scheme == "http" && s.https:
		return nil, errors.New("webhook: the endpoint's URL is not https: see SinkOptions.AllowHTTP")
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
	r.GetBody = nil // the relay counts tries: net/http must not make some of its own
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

// isOurs reports whether a header belongs to HTTP's framing or to the webhook itself.
func isOurs(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Webhook-")
}

// judge says what an answer means.
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
