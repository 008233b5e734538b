package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/client/httpclient"
)

// script is a base that answers as it is told, and keeps what was sent. It needs no network, so that it works where
// time is that of a bubble.
type script struct {
	mu      sync.Mutex
	answers []answerFunc // the last goes on for good
	sent    []sending
}

type answerFunc func(r *http.Request) (*http.Response, error)

// RoundTrip makes one answer a base.
func (f answerFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type sending struct {
	header http.Header
	url    string
	body   string
	at     time.Time
}

var errReset = errors.New("connection reset by peer")

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	s.mu.Lock()
	s.sent = append(s.sent, sending{r.Header, r.URL.String(), string(body), time.Now()})
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	response, err := answer(r)
	if response != nil {
		response.Request = r
	}
	return response, err
}

// reply answers with a status and header lines; one that begins with { or < is the body.
func reply(status int, lines ...string) answerFunc {
	return func(*http.Request) (*http.Response, error) {
		r := &http.Response{StatusCode: status, Header: http.Header{}, ProtoMajor: 1, ProtoMinor: 1}
		text := "answer " + strconv.Itoa(status)
		for _, l := range lines {
			if name, value, ok := strings.Cut(l, ": "); ok && !strings.HasPrefix(l, "{") && !strings.HasPrefix(l, "<") {
				r.Header.Add(name, value)
			} else {
				text = l
			}
		}
		r.Body = io.NopCloser(strings.NewReader(text))
		return r, nil
	}
}

// problemOf answers as our middleware does.
func problemOf(status int, slug string, lines ...string) answerFunc {
	return reply(status, append(lines, "Content-Type: application/problem+json",
		`{"type":"https://a.example/p#`+slug+`","code":"`+slug+`"}`)...)
}

// lost is a request that was sent and not answered.
func lost(*http.Request) (*http.Response, error) { return nil, errReset }

// undialled is a request for which there was no connection.
func undialled(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GetConn("bank.example:443")
	return nil, errors.New("connection refused")
}

// silent is a server that never answers.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// played is what became of one request.
type played struct {
	status int
	body   string
	err    error
	sent   []sending
	took   time.Duration
	seen   []client.Event
}

// play sends one request to a script, in a bubble's time.
func play(t *testing.T, o httpclient.Options, change func(*http.Request) *http.Request,
	answers ...answerFunc,
) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = playHere(t, o, change, answers...)
	})
	return p
}

func playHere(t *testing.T, o httpclient.Options, change func(*http.Request) *http.Request,
	answers ...answerFunc,
) (p played) {
	t.Helper()
	base := &script{answers: answers}
	o.Base = base
	if o.Budget.Tokens == 0 {
		o.Budget.Tokens = -1
	}
	o.Observer = observe(&p.seen)
	transport := newTransport(t, o)
	r := charge(t.Context())
	if change != nil {
		r = change(r)
	}
	began := time.Now()
	response, err := transport.RoundTrip(r)
	p.took, p.err, p.sent = time.Since(began), err, base.sent
	if err == nil {
		p.status = response.StatusCode
		b, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		p.body = string(b)
	}
	return p
}

func newTransport(t testing.TB, o httpclient.Options) *httpclient.Transport {
	t.Helper()
	transport := httpclient.NewTransport(o)
	return transport
}

// charge is a request to a server that need not be there.
func charge(ctx context.Context) *http.Request { return chargeAt(ctx, "https://bank.example/charges") }

func chargeAt(ctx context.Context, url string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"amount":17}`))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// sameEachTime checks that all sendings carry one key, in that header, and the same bytes.
func (p played) sameEachTime(t *testing.T, header string) {
	t.Helper()
	for i, s := range p.sent {
		if s.header.Get(header) == "" || s.header.Get(header) != p.sent[0].header.Get(header) || s.body != p.sent[0].body {
			t.Errorf("sending %d had key %q and body %q, the first %q and %q", i+1, s.header.Get(header), s.body,
				p.sent[0].header.Get(header), p.sent[0].body)
		}
	}
}

// wantUnknown checks for an unknown outcome, for that reason.
func wantUnknown(t *testing.T, err error, why string) *client.OutcomeUnknownError {
	t.Helper()
	var unknown *client.OutcomeUnknownError
	if !errors.As(err, &unknown) || !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatalf("error %v, want ErrOutcomeUnknown", err)
	}
	if why != "" && unknown.Why != why {
		t.Errorf("stopped because of %q, want %q", unknown.Why, why)
	}
	return unknown
}

// observe keeps what an observer is told of attempts.
func observe(all *[]client.Event) client.Observer {
	return client.ObserverFunc(func(_ context.Context, e client.Event) {
		if e.Kind == client.AttemptEnded {
			*all = append(*all, e)
		}
	})
}

func openJournal(t testing.TB, path string) *filejournal.Journal {
	t.Helper()
	j, err := filejournal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}
