package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

// upstream is a small API behind the proxies. It has a plain handler and a handler of Restate's SDK; both do the same
// work.
type upstream struct{ ran atomic.Int64 }

type charge struct {
	Amount   int    `json:"amount"`
	Currency string `json:"currency"`
	Customer string `json:"customer"`
}

type receipt struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Note   string `json:"note"`
	charge
}

// chargeBody is the request body of the load.
const chargeBody = `{"amount":4200,"currency":"EUR","customer":"cus_9s6XKzkNRiz8i3"}`

// work is the work of both handlers.
func (u *upstream) work(c charge) receipt {
	n := u.ran.Add(1)
	return receipt{ID: fmt.Sprintf("pay_%020d", n), Status: "succeeded", Note: strings.Repeat("x", 150), charge: c}
}

// ServeHTTP charges, and for /ran returns how often it did.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ran" {
		fmt.Fprint(w, u.ran.Load())
		return
	}
	var c charge
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := json.Marshal(u.work(c))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

func (u *upstream) service() (http.Handler, error) {
	return server.NewRestate().WithLogger(slog.DiscardHandler, true).Bind(
		restate.NewService("payments").Handler("charge", restate.NewServiceHandler(
			func(_ restate.Context, c charge) (receipt, error) { return u.work(c), nil },
		)),
	).Handler()
}

// upstreamFound holds the addresses of the API: host and port.
type upstreamFound struct{ Plain, Restate string }

func upstreamRole(stop context.Context, _ json.RawMessage, ready func(any) error) (any, error) {
	u := new(upstream)
	service, err := u.service()
	if err != nil {
		return nil, err
	}
	var found upstreamFound
	plainEnd, err := listen(&found.Plain, u)
	if err != nil {
		return nil, err
	}
	defer func() { _ = plainEnd() }()
	serviceEnd, err := listen(&found.Restate, service)
	if err != nil {
		return nil, err
	}
	defer func() { _ = serviceEnd() }()
	if err := ready(found); err != nil {
		return nil, err
	}
	<-stop.Done()
	return nil, nil
}

// listen serves h over HTTP/1.1 and unencrypted HTTP/2, and sets addr.
func listen(addr *string, h http.Handler) (end func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	*addr = l.Addr().String()
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	return s.Close, nil
}

// ran returns how often the upstream has worked.
func ran(ctx context.Context, addr string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ran", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var n int64
	_, err = fmt.Sscan(string(text), &n)
	return n, err
}

// expectRan returns an error unless the upstream has worked the expected number of times: a proxy that answers
// without the work, or works twice, cannot win.
func expectRan(ctx context.Context, addr string, before int64, want int) error {
	after, err := ran(ctx, addr)
	if err == nil && after-before != int64(want) {
		err = fmt.Errorf("the work ran %d times, not %d", after-before, want)
	}
	return err
}
