package connectsafe_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// halfClose calls Create over HTTP/1.1, closes the sending half of the connection, and returns status and body.
func (k *kit) halfClose(key string) (status int, body string) {
	k.Helper()
	k.start()
	connection, err := net.Dial("tcp", strings.TrimPrefix(k.url, "http://"))
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { connection.Close() })
	io.WriteString(connection, "POST "+create+" HTTP/1.1\r\nHost: shop.example\r\nCaller: alice\r\n"+
		"Idempotency-Key: "+key+"\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"+`{"amount":"17"}`)
	connection.(*net.TCPConn).CloseWrite()
	connection.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		k.Fatal(err)
	}
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		k.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

// hookedStore calls beforeClaim at the beginning of each claim.
type hookedStore struct {
	*memstore.Store
	beforeClaim func()
}

func (s *hookedStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.beforeClaim()
	return s.Store.Claim(ctx, p)
}

// A client that half-closes its connection has not left: its call runs, and it gets the answer. The end of its call's
// context comes before the claim, or while the claim is being made. Seen to fail with do in rpcsafe claiming with the
// call's context: 409 and no run.
func TestHalfClosedClientGetsItsAnswer(t *testing.T) {
	for _, when := range []string{"before the claim", "during the claim"} {
		t.Run(when, func(t *testing.T) {
			k := newKit(t)
			var ended atomic.Pointer[<-chan struct{}]
			wait := func() { <-*ended.Load() }
			if when == "during the claim" {
				k.store = &hookedStore{memstore.New(memstore.Options{}), wait}
			}
			k.outside = append(k.outside, connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
				return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
					done := ctx.Done()
					ended.Store(&done)
					if when == "before the claim" {
						wait()
					}
					return next(ctx, r)
				}
			}))
			if status, body := k.halfClose("k"); status != http.StatusOK || !strings.Contains(body, "thing-1") {
				t.Errorf("%d %s, want 200 and thing-1", status, body)
			}
			k.wantRuns(1)
		})
	}
}

// A client that may have left does not wait for another attempt. Seen to fail with WaitContext not set by do in
// rpcsafe: no answer came, because the first attempt does not end before the test does.
func TestHalfClosedClientDoesNotWait(t *testing.T) {
	k := newKit(t)
	k.policy.OnInFlight = retrysafe.Wait(time.Hour)
	began, goOn := make(chan struct{}), make(chan struct{})
	k.work = func(context.Context, *in) (*out, error) {
		close(began)
		<-goOn
		return connect.NewResponse(&shoppb.Thing{ThingId: "1"}), nil
	}
	k.start()
	var first sync.WaitGroup
	first.Go(func() { k.create("k") })
	defer first.Wait()
	defer close(goOn)
	<-began
	if status, body := k.halfClose("k"); status != http.StatusConflict || !strings.Contains(body, "aborted") {
		t.Errorf("%d %s, want 409 and aborted", status, body)
	}
	k.wantRuns(1)
}
