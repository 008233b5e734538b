package httpsafe_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// halfClose sends a request, closes the sending half of the connection, and returns the answer.
func halfClose(t *testing.T, address string) *http.Response {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	io.WriteString(connection, "POST /payments HTTP/1.1\r\nHost: example.com\r\nCaller: alice\r\nIdempotency-Key: k\r\n"+
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n17")
	connection.(*net.TCPConn).CloseWrite()
	connection.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// A client that half-closes its connection has not left: its request runs, and it gets the answer. The end of its
// request's context comes before the claim, or while the claim is being made. Seen to fail with do claiming with the
// request's context: 409.
func TestHalfClosedClientGetsItsAnswer(t *testing.T) {
	for _, when := range []string{"before the claim", "during the claim"} {
		t.Run(when, func(t *testing.T) {
			k := newKit(t)
			var ended atomic.Pointer[<-chan struct{}]
			wait := func() { <-*ended.Load() }
			if when == "during the claim" {
				k.store.beforeClaim = wait
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				done := r.Context().Done()
				ended.Store(&done)
				if when == "before the claim" {
					io.Copy(io.Discard, io.LimitReader(r.Body, 0))
					r.Body = &endingBody{r.Body, wait}
				}
				k.ServeHTTP(w, r)
			}))
			defer server.Close()
			if got := halfClose(t, server.Listener.Addr().String()); got.StatusCode != http.StatusCreated {
				t.Errorf("status %d, want 201", got.StatusCode)
			}
			k.wantRuns(1)
		})
	}
}

// endingBody calls ended when the body has been read.
type endingBody struct {
	io.ReadCloser
	ended func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended()
	}
	return n, err
}

// A client that may have left does not wait for another attempt. Seen to fail with WaitContext not set: the answer came
// when the first attempt had ended, which it never does here.
func TestHalfClosedClientDoesNotWait(t *testing.T) {
	k := newKit(t)
	k.policy.OnInFlight = retrysafe.Wait(time.Hour)
	server := httptest.NewServer(k)
	defer server.Close()
	k.during(func() {
		if got := halfClose(t, server.Listener.Addr().String()); got.StatusCode != http.StatusConflict {
			t.Errorf("status %d, want 409", got.StatusCode)
		}
	}).want(201)
}

// patientInbox accepts requests whose context has not ended.
type patientInbox struct{}

func (patientInbox) Accept(ctx context.Context, _ *httpsafe.Accepted) (bool, error) {
	return true, ctx.Err()
}

func (patientInbox) Waiting(ctx context.Context, _ retrysafe.Digest) (httpsafe.WaitingRequest, bool, error) {
	return httpsafe.WaitingRequest{}, false, ctx.Err()
}

func (patientInbox) Problems() []httpsafe.Problem { return nil }

// A client that half-closes its connection is accepted into an inbox, and told the status of its key: 503 would be for
// good, because it does the same each time.
//
// Seen to fail with the context of the request given to Accept, to Waiting and lookUp in refusedByAge, to Waiting in
// refusedByQuota, and to ask in serve.
func TestHalfClosedClientIsAcceptedAndTold(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	k := newKit(t)
	k.options.Inbox, k.options.StatusPath, k.options.MaxKeyAge = patientInbox{}, "/status", time.Hour
	k.send(request("k").WithContext(ended)).want(202)
	k.send(request("01890000-0000-7000-8000-000000000000").WithContext(ended)).wantProblem(422, httpsafe.KeyExpired)

	k = newKit(t)
	k.options.Inbox, k.options.StatusPath = patientInbox{}, "/status"
	k.options.QuotaFunc = func(*http.Request, string) time.Duration { return time.Minute }
	refused := k.send(request("new").WithContext(ended)).wantProblem(429, httpsafe.KeyQuota)
	if refused["executed"] != "no" {
		t.Errorf("a new key beyond the quota: executed %v", refused["executed"])
	}

	k = newKit(t)
	k.post("k").want(201)
	r := httptest.NewRequest(http.MethodGet, "/status/"+retrysafe.Key{Scope: "alice", ID: "k"}.String(), nil)
	r.Header.Set("Caller", "alice")
	w := httptest.NewRecorder()
	httpsafe.StatusHandler(k.guard, k.scope, k.options).ServeHTTP(w, r.WithContext(ended))
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// A caller that has used up its quota still gets the answers of its known keys. Seen to fail with refusedByQuota not
// looking the key up: 429, "executed": "no".
func TestKnownKeysAreAnsweredBeyondTheQuota(t *testing.T) {
	k := newKit(t)
	var wait atomic.Int64
	k.options.QuotaFunc = func(*http.Request, string) time.Duration { return time.Duration(wait.Load()) }
	k.policy.OnInFlight = retrysafe.Wait(time.Hour)
	k.post("done").want(201)
	refuses := func(key, executed string) {
		t.Helper()
		if p := k.post(key).wantHeader("Retry-After", "1").wantProblem(429, httpsafe.KeyQuota); p["executed"] != executed {
			t.Errorf("problem %v, want executed %q", p, executed)
		}
	}
	k.during(func() {
		wait.Store(int64(time.Second))
		k.post("k").wantProblem(409, httpsafe.RequestInFlight) // at once
	})
	k.post("done").want(201).wantState("replayed; exp=@EXP")
	k.post("done", body("18")).wantProblem(422, httpsafe.KeyReused)
	refuses("new", "no")
	k.store.fail(errDown, nil)
	refuses("done", "unknown")
	k.store.fail(nil, nil)
	k.pass(25 * time.Hour)
	refuses("done", "no") // the key is free
	k.wantRuns(2)
}
