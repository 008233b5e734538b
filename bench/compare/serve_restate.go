package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/bench/peers/restate"
)

// playRestate serves the API as handlers of Restate behind its ingress. The ingress knows no callers, so a gateway in
// front of it asks who the caller is, as its documentation advises.
func (r role) playRestate(ctx context.Context) error {
	handlers, err := restateHandlers(r.api())
	if err != nil {
		return err
	}
	at, err := r.handlersAddress()
	if err != nil {
		return err
	}
	_, end, err := loopback.Serve(at, handlers)
	if err != nil {
		return err
	}
	defer func() { _ = end() }()
	peer, err := restate.Start(ctx, r.server, r.dir)
	if err != nil {
		return err
	}
	defer func() { _ = peer.Stop() }()
	if err := restate.Register(ctx, peer.Admin, at); err != nil {
		return err
	}
	ingress := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: peer.Ingress})
	return serve(ctx, r.address, r.api().Authenticated(ingress))
}

// handlersAddress is the same after a restart: Restate goes on with an invocation where it began.
func (r role) handlersAddress() (string, error) {
	file := filepath.Join(r.dir, "handlers.address")
	if text, err := os.ReadFile(file); err == nil {
		return string(text), nil
	}
	at, err := loopback.FreeAddress()
	if err != nil {
		return "", err
	}
	return at, os.WriteFile(file, []byte(at), 0o600)
}

// restateHandlers is the API as handlers. What has an effect is done in Run, which journals its result.
func restateHandlers(a orders.API) (http.Handler, error) {
	post := func(lines string, after time.Duration) func(sdk.Context, orders.Order) (orders.Created, error) {
		return func(ctx sdk.Context, in orders.Order) (orders.Created, error) {
			return sdk.Run(ctx, func(sdk.RunContext) (orders.Created, error) {
				time.Sleep(after)
				made, err := a.Create(in)
				made.Lines = lines
				return made, err
			})
		}
	}
	fail := func(code sdk.Code, why string) func(sdk.Context, orders.Order) (orders.Created, error) {
		return func(sdk.Context, orders.Order) (orders.Created, error) {
			return orders.Created{}, sdk.ToTerminalError(errors.New(why), sdk.WithErrorCode(code))
		}
	}
	list := func(sdk.Context, sdk.Void) (map[string]int64, error) {
		n, err := a.Count()
		return map[string]int64{"orders": n}, err
	}
	return server.NewRestate().WithLogger(slog.DiscardHandler, true).
		Bind(sdk.NewService("orders").
			Handler("create", sdk.NewServiceHandler(post("", 0))).
			Handler("slow", sdk.NewServiceHandler(post("", orders.Slowness))).
			Handler("large", sdk.NewServiceHandler(post(orders.LargeLines(), 0))).
			Handler("failing", sdk.NewServiceHandler(fail(http.StatusPaymentRequired, "no money"))).
			Handler("broken", sdk.NewServiceHandler(fail(http.StatusInternalServerError, "broken"))).
			Handler("list", sdk.NewServiceHandler(list))).
		Bind(sdk.NewService("others").Handler("create", sdk.NewServiceHandler(post("", 0)))).
		Handler()
}
