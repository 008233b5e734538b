package main

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// guard is one on the store that the role's name ends with, and what closes the store.
func (r role) guard() (*retrysafe.Guard, func() error, error) {
	if !strings.HasSuffix(r.name, "-sqlite") {
		return retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{}), func() error { return nil }, nil
	}
	store, err := sqlitestore.Open(filepath.Join(r.dir, "keys.db"), sqlitestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return retrysafe.New(store, retrysafe.Options{}), store.Close, nil
}

// playMiddleware serves the API behind httpsafe's middleware, as docs/getting-started-library.md sets it up.
func (r role) playMiddleware(ctx context.Context) error {
	guard, closeStore, err := r.guard()
	if err != nil {
		return err
	}
	defer func() { _ = closeStore() }()
	defer func() { _ = guard.Shutdown(context.WithoutCancel(ctx)) }()
	options := httpsafe.Options{}
	mux := http.NewServeMux()
	mux.Handle("/", httpsafe.Middleware(guard, httpsafe.ScopeCredential(), options)(r.api().Handler()))
	mux.Handle("GET "+proxy.PolicyPath, httpsafe.PolicyPage(options.Rules("/", guard.Policy())))
	return serve(ctx, r.address, r.api().Authenticated(mux))
}

// playProxy serves the proxy with the API behind it, as docs/getting-started-proxy.md sets it up.
func (r role) playProxy(ctx context.Context) error {
	guard, closeStore, err := r.guard()
	if err != nil {
		return err
	}
	defer func() { _ = closeStore() }()
	defer func() { _ = guard.Shutdown(context.WithoutCancel(ctx)) }()
	upstream, end, err := loopback.Serve("", r.api().Handler())
	if err != nil {
		return err
	}
	defer func() { _ = end() }()
	p, err := proxy.New(guard, httpsafe.ScopeCredential(), proxy.Options{
		Upstream: proxy.Upstream{URL: &url.URL{Scheme: "http", Host: upstream}},
	})
	if err != nil {
		return err
	}
	defer p.CloseIdleConnections()
	return serve(ctx, r.address, r.api().Authenticated(p))
}
