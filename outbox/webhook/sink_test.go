package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/sinktest"
)

// deliver sends one message to a handler.
func deliver(t *testing.T, h http.HandlerFunc, m outbox.Message, o SinkOptions) error {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	o.AllowHTTP, o.AllowPrivate = true, true
	sink := NewSink(To(server.URL, parse(t, vectorShared)), o)
	return sink.Send(t.Context(), []outbox.Delivery{{Message: m}})[0]
}

// The middleware accepts what the sink sends, and the message's header arrives, except names that belong to HTTP or
// to the webhook. Seen to fail with isOurs taken out.
func TestSinkAndVerifyFit(t *testing.T) {
	var got *http.Request
	var body string
	h := Verify(parse(t, vectorShared), VerifyOptions{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
	}))
	m := outbox.Message{Key: "msg_1", Body: []byte(`{"a":1}`), Header: map[string]string{
		"Content-Type": "application/cloudevents+json", "X-Tenant": "7", "webhook-id": "forged",
		"Webhook-Signature": "v1,forged",
		"Host":              "elsewhere.test", "content-length": "3", "Transfer-Encoding": "chunked",
		"Upgrade": "h2c", "webhook-other": "x",
	}}
	if err := deliver(t, h.ServeHTTP, m, SinkOptions{}); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || body != `{"a":1}` || got.Header.Get(HeaderID) != "msg_1" ||
		got.Header.Get("X-Tenant") != "7" ||
		got.Header.Get("Content-Type") != "application/cloudevents+json" || got.Host == "elsewhere.test" ||
		got.Header.Get("Upgrade") != "" || got.Header.Get("Webhook-Other") != "" {
		t.Errorf("got %s %q for %s with %v", got.Method, body, got.Host, got.Header)
	}
	if err := deliver(t, h.ServeHTTP, outbox.Message{Key: "msg_1"}, SinkOptions{}); err != nil ||
		got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %v with %v", err, got.Header)
	}
}

// Seen to fail with 410 treated like the others, and with Retry-After ignored.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status    int
		after     string
		sent      bool
		permanent bool
		delay     time.Duration
	}{
		{200, "", true, false, 0},
		{204, "", true, false, 0},
		{301, "", false, false, 0},
		{400, "", false, false, 0},
		{410, "3", false, true, 0},
		{429, "120", false, false, 2 * time.Minute},
		{503, "99999999999999999999", false, false, (1<<31 - 1) * time.Second},
		{503, "soon", false, false, 0},
		{503, "-1", false, false, 0},
		{503, "Thu, 01 Jan 1970 00:00:00 GMT", false, false, 0},
	} {
		err := deliver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(c.status)
		}, outbox.Message{Key: "k"}, SinkOptions{})
		var status *StatusError
		if (err == nil) != c.sent || outbox.IsPermanent(err) != c.permanent || outbox.RetryDelay(err) != c.delay ||
			err != nil && (!errors.As(err, &status) || status.Status != c.status) {
			t.Errorf("%d, Retry-After %q: got %v, permanent %v, delay %v", c.status, c.after, err,
				outbox.IsPermanent(err), outbox.RetryDelay(err))
		}
	}
}

// Seen to fail with CheckRedirect taken out: the webhook went elsewhere, with its signature.
func TestRedirectsAreNotFollowed(t *testing.T) {
	visits := 0
	err := deliver(t, func(w http.ResponseWriter, r *http.Request) {
		visits++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, outbox.Message{Key: "k"}, SinkOptions{})
	if err == nil || visits != 1 || !strings.Contains(err.Error(), "redirects are not followed") {
		t.Errorf("got %v after %d visits", err, visits)
	}
}

// An endpoint that answers without end does not block the sink. Seen to fail with the answer read to its end.
func TestAnswerIsReadWithinBounds(t *testing.T) {
	err := deliver(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}, outbox.Message{Key: "k"}, SinkOptions{})
	if err != nil {
		t.Errorf("got %v, want the message sent: the status says so", err)
	}
	err = deliver(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, outbox.Message{Key: "k"},
		SinkOptions{Timeout: 50 * time.Millisecond})
	if err == nil || outbox.IsPermanent(err) {
		t.Errorf("an endpoint that says nothing: got %v", err)
	}
}

// Seen to fail with Control taken out of the dialer, and with the scheme not checked.
func TestWhatIsInsideCannotBeReached(t *testing.T) {
	visits := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits++ }))
	defer server.Close()
	secrets := parse(t, vectorShared)
	send := func(url, key string, o SinkOptions) error {
		return NewSink(To(url, secrets), o).Send(t.Context(), []outbox.Delivery{{Message: outbox.Message{Key: key}}})[0]
	}
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		if err := send("http://"+host+port, "k", SinkOptions{AllowHTTP: true}); !errors.Is(err, ErrPrivateAddress) {
			t.Errorf("%s: got %v, want ErrPrivateAddress", host, err)
		}
	}
	for _, url := range []string{server.URL, "ftp://example.test", "/relative", "https://"} {
		if err := send(url, "k", SinkOptions{AllowPrivate: true}); !outbox.IsPermanent(err) {
			t.Errorf("%s: got %v, want a permanent error", url, err)
		}
	}
	if err := send(server.URL, "a.b", SinkOptions{AllowPrivate: true, AllowHTTP: true}); !outbox.IsPermanent(err) {
		t.Errorf("a key with a full stop: got %v, want a permanent error", err)
	}
	if visits != 0 {
		t.Errorf("%d requests came through", visits)
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true,
		"10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "127.0.0.2": false, "169.254.169.254": false,
		"0.0.0.0":    false,
		"100.64.0.1": false, "192.0.2.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"240.0.0.1": false,
		"::":        false, "::1": false, "fe80::1": false, "fc00::1": false, "fec0::1": false, "ff02::1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::a00:1": false,
		"2002:a00:1::": false, "2001:db8::1": false, "::10.0.0.1": false, "::ffff:100.64.0.1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: public is %v, want %v", text, got, want)
		}
	}
}

// Errors do not contain the endpoint's URL: it may contain a secret.
func TestErrorsHideTheURL(t *testing.T) {
	to := func(context.Context, outbox.Delivery) (Endpoint, error) {
		return Endpoint{"http://127.0.0.1:1/path?token=sesame", parse(t, vectorShared)}, nil
	}
	err := NewSink(to, SinkOptions{AllowHTTP: true, AllowPrivate: true}).Send(t.Context(),
		[]outbox.Delivery{{Message: outbox.Message{Key: "k"}}})[0]
	if err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("got %v", err)
	}
}

// Seen to fail with nil for a request that the end of the context had interrupted.
func TestSinkTellsWhatItHasNotSent(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get(HeaderID))
	}))
	defer server.Close()
	sinktest.Run(t, NewSink(To(server.URL, parse(t, vectorShared)), SinkOptions{AllowHTTP: true, AllowPrivate: true}),
		func() outbox.Message { return outbox.Message{} },
		func() []string {
			mu.Lock()
			defer mu.Unlock()
			return keys
		})
}
