package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
)

// Seen to fail with a wait that is not random, without the doubling, and without the cap.
func TestBackoffIsRandomAndBounded(t *testing.T) {
	bounds := []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond,
		500 * time.Millisecond, 500 * time.Millisecond,
	}
	longest, different := make([]time.Duration, len(bounds)), map[time.Duration]bool{}
	for range 200 {
		p := play(t, httpclient.Options{Options: client.Options{
			Attempts: 6, Backoff: 100 * time.Millisecond,
			MaxBackoff: 500 * time.Millisecond,
		}}, nil, lost)
		wantUnknown(t, p.err, client.GaveUpAttempts)
		for i := range bounds {
			wait := p.sent[i+1].at.Sub(p.sent[i].at)
			if wait > bounds[i] || wait != p.seen[i].Wait {
				t.Fatalf("wait %d was %v, told %v, bound %v", i+1, wait, p.seen[i].Wait, bounds[i])
			}
			longest[i], different[wait] = max(longest[i], wait), true
		}
	}
	for i, l := range longest {
		if l < bounds[i]*9/10 {
			t.Errorf("of 200 waits before attempt %d the longest was %v, the bound is %v", i+2, l, bounds[i])
		}
	}
	if len(different) < 900 {
		t.Errorf("only %d different waits of 1000", len(different))
	}
}

// Seen to fail with the line about r.RetryAfter taken out of mayRetry, and with inMilliseconds taken out of readBody or
// either of its bounds out of it, and with a number that is too great taken for none.
func TestRetryAfterIsObeyed(t *testing.T) {
	const problem = "Content-Type: application/problem+json"
	for _, c := range []struct {
		lines  []string
		atMin  time.Duration
		status int
	}{
		{[]string{"Retry-After: 7"}, 7 * time.Second, 201},
		{[]string{"Retry-After: 60"}, time.Minute, 201},
		{[]string{"Retry-After: 61"}, 0, 429}, // longer than we wait: the caller is told
		{[]string{"Retry-After: Mon, 02 Jan 2006 15:04:09 GMT", "Date: Mon, 02 Jan 2006 15:04:05 GMT"}, 4 * time.Second, 201},
		{
			[]string{"Retry-After: Monday, 02-Jan-06 15:04:09 GMT", "Date: Mon, 02 Jan 2006 15:04:05 GMT"},
			4 * time.Second, 201,
		},
		{[]string{"Retry-After: Sat, 01 Jan 2000 00:00:05 GMT"}, 5 * time.Second, 201}, // a bubble begins with the century
		{[]string{"Retry-After: Fri, 31 Dec 1999 00:00:00 GMT"}, 0, 201},
		{[]string{"Retry-After: soon"}, 0, 201},
		{[]string{"Retry-After: -1"}, 0, 201},
		{[]string{"Retry-After: 9999999999"}, 0, 429},
		{[]string{"Retry-After: 99999999999999999999"}, 0, 429},
		{[]string{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}, 0, 429},
		{[]string{"Retry-After: 2", problem, `{"retry_after_ms":1400}`}, 1400 * time.Millisecond, 201},
		{[]string{"Retry-After: 2", problem, `{"retry_after_ms":1000}`}, 2 * time.Second, 201}, // not what rounds up to 2
		{[]string{"Retry-After: 2", problem, `{"retry_after_ms":2900}`}, 2 * time.Second, 201},
		{[]string{"Retry-After: 2", problem, `{"retry_after_ms":-5}`}, 2 * time.Second, 201},
		{[]string{"Retry-After: 2", `{"retry_after_ms":1400}`}, 2 * time.Second, 201}, // no problem of ours
		{[]string{problem, `{"retry_after_ms":1400}`}, 1400 * time.Millisecond, 201},
		{[]string{problem, `{"retry_after_ms":60001}`}, 0, 429},
		{[]string{problem, `{"retry_after_ms":99999999999999999999}`}, 0, 201},
	} {
		p := play(t, httpclient.Options{}, nil, reply(429, c.lines...), reply(201))
		if p.status != c.status || p.took < c.atMin || p.took > c.atMin+200*time.Millisecond {
			t.Errorf("%v: status %d after %v, want %d after %v", c.lines, p.status, p.took, c.status, c.atMin)
		}
	}
}

func TestAnAttemptHasATime(t *testing.T) {
	p := play(t, httpclient.Options{Options: client.Options{AttemptTimeout: 5 * time.Second}}, nil, silent, reply(201))
	if p.status != 201 || p.took < 5*time.Second || p.took > 6*time.Second {
		t.Errorf("status %d after %v, %v", p.status, p.took, p.err)
	}
	p = play(t, httpclient.Options{Options: client.Options{AttemptTimeout: time.Second}}, nil, silent)
	if err := wantUnknown(t, p.err, client.GaveUpAttempts); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// The answer's body counts: a server that stops in the middle of it is asked again.
func TestAStuckBodyIsAskedForAgain(t *testing.T) {
	stuck := func(r *http.Request) (*http.Response, error) {
		response, _ := reply(201)(r)
		response.Body = &stuckBody{r.Context()}
		return response, nil
	}
	p := play(t, httpclient.Options{Options: client.Options{AttemptTimeout: time.Second}}, nil, stuck, reply(201))
	if p.status != 201 || p.body != "answer 201" || len(p.sent) != 2 {
		t.Errorf("status %d, body %q, sent %d times", p.status, p.body, len(p.sent))
	}
}

type stuckBody struct{ ctx context.Context }

func (b *stuckBody) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }
func (*stuckBody) Close() error               { return nil }

// Seen to fail with the look at the deadline taken out of mayRetry: it slept until the context ended.
func TestTheContextIsObeyed(t *testing.T) {
	within := func(d time.Duration) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			t.Cleanup(cancel)
			return r.WithContext(ctx)
		}
	}
	p := play(t, httpclient.Options{}, within(20*time.Second), reply(429, "Retry-After: 30"))
	if p.status != 429 || p.took != 0 {
		t.Errorf("a wait that cannot end in time: status %d after %v", p.status, p.took)
	}
	p = play(t, httpclient.Options{}, within(20*time.Second), reply(503, "Retry-After: 30"))
	wantUnknown(t, p.err, client.GaveUpContext)
	p = play(t, httpclient.Options{}, within(2*time.Second), silent)
	if err := wantUnknown(t, p.err, client.GaveUpContext); p.took != 2*time.Second ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended after %v with %v", p.took, p.err)
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	for _, c := range []struct {
		answer  answerFunc
		unknown bool
	}{{undialled, false}, {reply(429, "Retry-After: 30"), false}, {lost, true}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			transport := newTransport(t, httpclient.Options{Options: client.Options{
				Backoff:    time.Hour,
				MaxBackoff: time.Hour,
			}, Base: &script{answers: []answerFunc{c.answer}}})
			ended := make(chan error)
			go func() {
				response, err := transport.RoundTrip(charge(ctx))
				if err == nil {
					response.Body.Close()
				}
				ended <- err
			}()
			synctest.Wait()
			cancel()
			err := <-ended
			if !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrOutcomeUnknown) != c.unknown {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Seen to fail with the horizon taken out of Validate, and with NewTransport calling Validate no more.
func TestTheHorizonIsBelowHalfTheRetention(t *testing.T) {
	short := httpkey.IETF()
	short.Retention = time.Minute
	forgetful := httpkey.IETF()
	forgetful.Retention = 0
	for _, c := range []struct {
		o  httpclient.Options
		ok bool
	}{
		{httpclient.Options{}, true},
		{httpclient.Options{Options: client.Options{Horizon: 12 * time.Hour}}, false},
		{httpclient.Options{Options: client.Options{Horizon: 12*time.Hour - 1}}, true},
		{httpclient.Options{Profile: short}, true},
		{httpclient.Options{Options: client.Options{Horizon: 30 * time.Second}, Profile: short}, false},
		{httpclient.Options{Options: client.Options{Horizon: 30 * time.Second, Retention: time.Hour}, Profile: short}, true},
		{httpclient.Options{Profile: forgetful}, false},
		{httpclient.Options{Options: client.Options{KeyFunc: func() string { return strings.Repeat("k", 256) }}}, false},
		{httpclient.Options{
			Options: client.Options{KeyFunc: func() string { return strings.Repeat("k", 46) }},
			Profile: httpkey.Square(),
		}, false},
		{httpclient.Options{
			Options: client.Options{KeyFunc: func() string { return "k" }},
			Profile: httpkey.Repeatability(),
		}, false},
		{httpclient.Options{Methods: []string{"GET"}}, false},
	} {
		err := c.o.Validate()
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
		func() {
			defer func() {
				if p := recover(); (p == nil) != c.ok || p != nil && p != err.Error() {
					t.Errorf("%+v: panic %v, want the error %v", c.o, p, err)
				}
			}()
			httpclient.New(c.o)
		}()
	}
	p := play(t, httpclient.Options{Options: client.Options{Horizon: 20 * time.Second}, Profile: short}, nil,
		reply(503, "Retry-After: 8"))
	wantUnknown(t, p.err, client.GaveUpHorizon)
	if len(p.sent) != 3 {
		t.Errorf("sent %d times within 20 s at 8 s each, want 3", len(p.sent))
	}
}

// A server that says how long it keeps answers bounds the horizon, and the observer is told so once. Seen to fail with
// keeps left out of attempt, with its tolerance, with the status not looked at, with the check of known, and with Date not asked for.
func TestTheServersRetentionBoundsTheHorizon(t *testing.T) {
	const date = "Date: Fri, 31 Dec 1999 00:00:00 GMT" // the server's clock is a day behind: 946598400
	for _, c := range []struct {
		first answerFunc
		kept  time.Duration // as the observer is told; 0: it is not
	}{
		{reply(201, date, "Idempotency-Status: executed; attempt=2; exp=@946598460"), time.Minute},
		{reply(303, date, "Idempotency-Status: executed; exp=@946598460"), time.Minute},
		{reply(402, date, "Idempotency-Status: executed; exp=@946598460"), 0},      // failures may have a shorter retention
		{reply(500, date, "Idempotency-Status: executed; exp=@946598460"), 0},      // of their own
		{reply(201, date, "Idempotency-Status: executed; exp=@946684800"), 0},      // a day, as expected
		{reply(201, date, "Idempotency-Status: executed; exp=@946656000"), 0},      // 16 hours and a part of a second
		{reply(201, "Idempotency-Status: executed; exp=@946598460"), 0},            // compared with which clock?
		{reply(201, date, "Idempotency-Status: replayed; exp=@946598460"), 0},      // it was kept before
		{reply(201, date, "Idempotency-Status: executed; exp=@946598400"), 0},      // nothing is kept
		{reply(201, date, "Idempotency-Status: executed; exp=946598460"), 0},       // not a date
		{reply(201, date, "Idempotency-Status: executed; body=?0; exp=@9e999"), 0}, // nor a number
	} {
		synctest.Test(t, func(t *testing.T) {
			var told []client.Event
			base := &script{answers: []answerFunc{c.first, c.first, reply(503, "Retry-After: 20")}}
			transport := newTransport(t, httpclient.Options{Base: base, Options: client.Options{
				Budget: client.RetryBudget{Tokens: -1}, Attempts: 2, Horizon: 8 * time.Hour,
				Observer: client.ObserverFunc(func(_ context.Context, e client.Event) {
					if e.Kind == client.RetentionShort {
						told = append(told, e)
					}
				}),
			}})
			for range 3 {
				response, err := transport.RoundTrip(charge(t.Context()))
				if err == nil {
					response.Body.Close()
				}
			}
			if (c.kept > 0) != (len(told) == 1) || len(told) > 1 ||
				c.kept > 0 && (told[0].Retention != c.kept || told[0].Origin != "https://bank.example") {
				t.Errorf("told %+v, want a retention of %v", told, c.kept)
			}
			base.answers = []answerFunc{reply(503, "Retry-After: 40")}
			sent := len(base.sent)
			_, err := transport.RoundTrip(charge(t.Context()))
			if want := map[bool]int{true: 1, false: 2}[c.kept > 0]; len(base.sent)-sent != want {
				t.Errorf("kept %v: sent %d times, want %d, %v", c.kept, len(base.sent)-sent, want, err)
			}
		})
	}
}

// Seen to fail with ErrBodyTooLarge taken out of freeze.
func TestTheBodyIsFrozenAndBounded(t *testing.T) {
	with := func(body io.Reader, length int64) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			r.Body, r.ContentLength, r.GetBody = io.NopCloser(body), length, nil
			return r
		}
	}
	p := play(t, httpclient.Options{MaxBody: 10}, with(strings.NewReader("1234567890"), -1), lost, lost, reply(201))
	if p.status != 201 || p.sent[2].body != "1234567890" {
		t.Errorf("status %d, %v", p.status, p.err)
	}
	p.sameEachTime(t, "Idempotency-Key")
	for _, length := range []int64{-1, 11} {
		p = play(t, httpclient.Options{MaxBody: 10}, with(strings.NewReader("12345678901"), length), reply(201))
		if !errors.Is(p.err, httpclient.ErrBodyTooLarge) || len(p.sent) != 0 {
			t.Errorf("sent %d times, %v", len(p.sent), p.err)
		}
	}
	cut := errors.New("disk gone")
	p = play(t, httpclient.Options{}, with(io.MultiReader(strings.NewReader("1"), errorReader{cut}), -1), reply(201))
	if !errors.Is(p.err, cut) || len(p.sent) != 0 {
		t.Errorf("sent %d times, %v", len(p.sent), p.err)
	}
}

type errorReader struct{ error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.error }

// The request given stays as it was, and its body is closed, whatever happens.
// Seen to fail with the copy of the header taken out of prepare.
func TestTheRequestIsNotChanged(t *testing.T) {
	for _, answer := range []answerFunc{reply(201), lost, undialled} {
		var given *http.Request
		var before http.Header
		body := &closeCounter{Reader: strings.NewReader("{}")}
		p := play(t, httpclient.Options{Profile: httpkey.Repeatability()}, func(r *http.Request) *http.Request {
			r.Body = body
			given, before = r, r.Header.Clone()
			return r
		}, answer)
		if len(given.Header) != len(before) || given.URL.String() != "https://bank.example/charges" ||
			given.Body != body || body.closed == 0 {
			t.Errorf("%v: the request is now %v %v, closed %d times", p.err, given.URL, given.Header, body.closed)
		}
	}
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

// Bodies of answers that were not the last are closed.
func TestTriedAnswersAreClosed(t *testing.T) {
	var bodies []*closeCounter
	counted := func(status int) answerFunc {
		return func(r *http.Request) (*http.Response, error) {
			response, _ := reply(status)(r)
			b := &closeCounter{Reader: response.Body}
			bodies = append(bodies, b)
			response.Body = b
			return response, nil
		}
	}
	large := func(r *http.Request) (*http.Response, error) {
		response, _ := counted(503)(r)
		bodies[len(bodies)-1].Reader = strings.NewReader(strings.Repeat("x", 3<<20))
		return response, nil
	}
	play(t, httpclient.Options{}, nil, counted(503), large, counted(307), counted(201))
	play(t, httpclient.Options{}, nil, large)
	for i, b := range bodies {
		if b.closed == 0 {
			t.Errorf("body %d was not closed", i+1)
		}
	}
}

// An error says what happened, and neither the key nor the intent nor the URL.
func TestUnknownOutcomeTells(t *testing.T) {
	p := play(t, httpclient.Options{}, func(r *http.Request) *http.Request {
		ctx := client.WithIntent(r.Context(), retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}})
		return chargeAt(ctx, "https://bank.example/charges?secret=1")
	}, reply(503, "Retry-After: 1", "X: y", "Idempotency-Key: "+(retrysafe.Intent{
		Operation: "charge",
		Params:    []string{"order-17"},
	}).Key(), "closed for lunch"))
	e := wantUnknown(t, p.err, client.GaveUpAttempts)
	key := (retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}).Key()
	if e.Key() != key || e.Intent != "charge(order-17)" || e.Attempts != 4 || e.Status != 503 ||
		e.Header.Get("X") != "y" ||
		string(e.Body) != "closed for lunch" || e.Origin != "https://bank.example" || e.Method != "POST" ||
		e.BegunAt.IsZero() ||
		e.RetryAfter != time.Second || e.Advice() == "" || e.Digest.String() != p.seen[0].Key {
		t.Errorf("%#v", e)
	}
	for _, text := range []string{
		e.Error(), fmt.Sprintf("%v", e), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e),
		fmt.Sprintf("%+v", *e),
	} {
		if strings.Contains(text, key) || strings.Contains(e.Error(), "order-17") || strings.Contains(text, "secret") {
			t.Errorf("%s", text)
		}
	}
}

// Bounds that are none are none. Seen to fail with a Retry-After's random part drawn below Backoff: it panicked; and
// with one more than MaxResponse read as it was: every answer came back empty.
func TestNoBoundIsNone(t *testing.T) {
	p := play(t, httpclient.Options{Options: client.Options{Backoff: -1}}, nil, reply(503, "Retry-After: 1"), reply(201))
	if p.status != 201 || p.took != time.Second {
		t.Errorf("no backoff: status %d after %v, %v", p.status, p.took, p.err)
	}
	p = play(t, httpclient.Options{MaxResponse: math.MaxInt64}, nil, reply(201))
	if p.body != "answer 201" {
		t.Errorf("no bound for answers: body %q, %v", p.body, p.err)
	}
	o := httpclient.Options{Options: client.Options{MaxRetryAfter: math.MaxInt64}}
	p = play(t, o, nil, reply(503, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"), reply(201))
	wantUnknown(t, p.err, client.GaveUpHorizon)
}

// A refusal whose body never ends is not waited for. Seen to fail with discard reading what is left of it: it hung.
func TestAnEndlessRefusalIsLeft(t *testing.T) {
	endless := func(r *http.Request) (*http.Response, error) {
		response, _ := reply(503, "Content-Type: text/event-stream")(r)
		response.Body = &stuckBody{r.Context()}
		return response, nil
	}
	hour := func(r *http.Request) *http.Request {
		ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
		t.Cleanup(cancel)
		return r.WithContext(ctx)
	}
	p := play(t, httpclient.Options{}, hour, endless, reply(201))
	if p.status != 201 || p.took > time.Second {
		t.Errorf("status %d after %v, %v", p.status, p.took, p.err)
	}
}

// Seen to fail with send leaving it to the base to look at the context: the outcome was unknown, though nothing was
// sent.
func TestNothingIsSentInAContextThatHasEnded(t *testing.T) {
	ended := func(r *http.Request) *http.Request {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		return r.WithContext(ctx)
	}
	p := play(t, httpclient.Options{}, ended, silent)
	if !errors.Is(p.err, context.Canceled) || errors.Is(p.err, client.ErrOutcomeUnknown) || len(p.sent) != 0 {
		t.Errorf("%v, sent %d times", p.err, len(p.sent))
	}
}
