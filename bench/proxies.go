package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// proxyAsked holds the parameters of a proxy. An empty Store keeps records in memory.
type proxyAsked struct{ Upstream, Store string }

type proxyFound struct {
	PID  int
	Addr string
}

// plainRole runs a plain net/http/httputil reverse proxy.
func plainRole(stop context.Context, text json.RawMessage, ready func(any) error) (any, error) {
	return serveProxy(stop, text, ready, func(_ proxyAsked, upstream *url.URL) (http.Handler, func() error, error) {
		transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
		return &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(upstream)
				r.SetXForwarded()
			},
			Transport:  transport,
			BufferPool: new(buffers),
		}, func() error { return nil }, nil
	})
}

// proxyRole runs package proxy on a store.
func proxyRole(stop context.Context, text json.RawMessage, ready func(any) error) (any, error) {
	return serveProxy(stop, text, ready, func(in proxyAsked, upstream *url.URL) (http.Handler, func() error, error) {
		var store retrysafe.Store = memstore.New(memstore.Options{MaxKeys: 1 << 30, MaxBytes: 1 << 40})
		end := func() error { return nil }
		if in.Store != "" {
			s, err := sqlitestore.Open(in.Store, sqlitestore.Options{})
			if err != nil {
				return nil, nil, err
			}
			store, end = s, s.Close
		}
		guard := retrysafe.New(store, retrysafe.Options{})
		p, err := proxy.New(guard, httpsafe.ScopeNone(), proxy.Options{Upstream: proxy.Upstream{URL: upstream}})
		return p, end, err
	})
}

func serveProxy(stop context.Context, text json.RawMessage, ready func(any) error,
	build func(proxyAsked, *url.URL) (http.Handler, func() error, error),
) (any, error) {
	var in proxyAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	h, endStore, err := build(in, &url.URL{Scheme: "http", Host: in.Upstream})
	if err != nil {
		return nil, err
	}
	found := proxyFound{PID: os.Getpid()}
	end, err := listen(&found.Addr, h)
	if err != nil {
		return nil, err
	}
	if err := ready(found); err != nil {
		return nil, err
	}
	<-stop.Done()
	if err := end(); err != nil {
		return nil, fmt.Errorf("close the listener: %w", err)
	}
	return nil, endStore()
}

// buffers is a pool of buffers for copying bodies.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[bufferBytes]byte)(buf)) }
