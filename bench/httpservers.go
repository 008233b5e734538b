package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/bench/peers/restate"
	"github.com/retrysafe/retrysafe/bench/peers/reverseproxy"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// The roles that serve HTTP: a small API, and what stands before it.

// upstream is the API. It has a plain handler and a handler of Restate's SDK; both do the same work.
type upstream struct{}

// upstreamFound holds the addresses of the API, host and port, and its process.
type upstreamFound struct {
	Plain, Restate string
	PID            int
}

func (upstream) play(stop context.Context, ready func(any) error) (any, error) {
	a := new(api)
	service, err := restate.Service("payments", "charge", a.work)
	if err != nil {
		return nil, err
	}
	address, end, err := loopback.Serve("", service)
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	return nil, serveUntil(stop, a, ready, func(plain string) any { return upstreamFound{plain, address, os.Getpid()} })
}

type api struct{ ran atomic.Int64 }

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

// work is the work of both handlers.
func (a *api) work(c charge) receipt {
	n := a.ran.Add(1)
	return receipt{ID: fmt.Sprintf("pay_%020d", n), Status: "succeeded", Note: strings.Repeat("x", 150), charge: c}
}

// ServeHTTP charges, and for /ran returns how often it did.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ran" {
		fmt.Fprint(w, a.ran.Load())
		return
	}
	var c charge
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := json.Marshal(a.work(c))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// ran returns how often the API at the address has worked.
func ran(ctx context.Context, address string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := loopback.Call(ctx, http.MethodGet, "http://"+address+"/ran", "")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &n)
	return n, err
}

// server is a running server: its process, and its host and port.
type server struct {
	PID  int
	Addr string
}

// self describes the server in this process.
func self(address string) any { return server{os.Getpid(), address} }

// plainProxy is the reverse proxy of the standard library.
type plainProxy struct{ Upstream string }

func (in plainProxy) play(stop context.Context, ready func(any) error) (any, error) {
	return nil, serveUntil(stop, reverseproxy.New(&url.URL{Scheme: "http", Host: in.Upstream}), ready, self)
}

// ourProxy is package proxy on a store. An empty Store keeps records in memory.
type ourProxy struct{ Upstream, Store string }

func (in ourProxy) play(stop context.Context, ready func(any) error) (_ any, err error) {
	var store retrysafe.Store = memstore.New(memstore.Options{MaxKeys: 1 << 30, MaxBytes: 1 << 40})
	if in.Store != "" {
		s, err := sqlitestore.Open(in.Store, sqlitestore.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		store = s
	}
	p, err := proxy.New(retrysafe.New(store, retrysafe.Options{}), httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: &url.URL{Scheme: "http", Host: in.Upstream}},
	})
	if err != nil {
		return nil, err
	}
	return nil, serveUntil(stop, p, ready, self)
}

// restateServer runs Restate until stop is done.
type restateServer struct{ Binary, Dir string }

// restateFound is the running Restate: its process, and the addresses of its ingress and of its administration.
type restateFound struct {
	server
	Admin string
}

func (in restateServer) play(stop context.Context, ready func(any) error) (any, error) {
	s, err := restate.Start(stop, in.Binary, in.Dir)
	if err != nil {
		return nil, err
	}
	if err := ready(restateFound{server{s.PID, s.Ingress}, s.Admin}); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	<-stop.Done()
	return nil, s.Stop()
}
