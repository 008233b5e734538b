package caddysafe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// init registers the handler: Caddy knows the modules of a program in no other way.
func init() {
	caddy.RegisterModule(&Handler{})
	httpcaddyfile.RegisterHandlerDirective("retrysafe", parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder("retrysafe", httpcaddyfile.After, "encode")
}

// Handler is the handler http.handlers.retrysafe. Placeholders such as {env.STORE} are replaced in its texts when the
// configuration is loaded.
type Handler struct {
	// Store is where keys are kept: the path of a SQLite file, which serves this process alone and is created if it is
	// missing, or a URL: postgres://USER@HOST/DATABASE, whose schema `retrysafe migrate up` has made, redis://HOST:PORT or
	// rediss://HOST:PORT. Handlers with the same file or URL share one store. Settings of a server that can lose keys are
	// logged as warnings. Required.
	Store string `json:"store"`
	// Scope is how callers are identified; a key belongs to one caller. It is credential (the Authorization header or
	// X-API-Key, as a digest), header:NAME for a header that clients cannot set themselves, or none. Default: credential.
	Scope string `json:"scope,omitempty"`
	// Profile is the name of an httpsafe.Profile: the form of keys and errors. Default: ietf.
	Profile string `json:"profile,omitempty"`
	// Required refuses requests without a key.
	Required bool `json:"required,omitempty"`
	// Retention is how long a key is kept, and its answer replayed. Default: 24h.
	Retention caddy.Duration `json:"retention,omitempty"`
	// Lease is how long a crash of Caddy blocks a key. Default: 30s.
	Lease caddy.Duration `json:"lease,omitempty"`
	// Timeout bounds the work of the handlers after this one. Default: 5m.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// Wait is how long a retry waits for an attempt that is still running, before it gets 409. Default: 5s; negative: not
	// at all.
	Wait caddy.Duration `json:"wait,omitempty"`

	key     string // of the store in stores; empty before it is provisioned
	guard   *retrysafe.Guard
	guarded http.Handler
	log     *slog.Logger
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// CaddyModule implements caddy.Module.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.retrysafe", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements caddy.Provisioner: it checks the options and opens the store.
func (h *Handler) Provision(ctx caddy.Context) error {
	scope, options, policy, err := h.settings()
	if err != nil {
		return err
	}
	store, err := openShared(ctx, caddy.NewReplacer().ReplaceKnown(h.Store, ""), &h.key)
	if err != nil {
		return err
	}
	h.log = ctx.Slogger()
	logRisks(ctx, h.log, store)
	h.guard = retrysafe.New(store, retrysafe.Options{Policy: policy})
	h.guarded = httpsafe.Middleware(h.guard, scope, options)(http.HandlerFunc(serveNext))
	return nil
}

// settings returns what the options mean.
func (h *Handler) settings() (scope httpsafe.ScopeFunc, o httpsafe.Options, p retrysafe.Policy, err error) {
	header, isHeader := strings.CutPrefix(h.Scope, "header:")
	switch {
	case h.Scope == "", h.Scope == "credential":
		scope = httpsafe.ScopeCredential()
	case h.Scope == "none":
		scope = httpsafe.ScopeNone()
	case isHeader && header != "":
		scope = httpsafe.ScopeHeader(header)
	default:
		return nil, o, p, fmt.Errorf("caddysafe: unsupported scope %q; supported: credential, header:NAME, none", h.Scope)
	}
	o.Required = h.Required
	if h.Profile != "" {
		if o.Profile, err = httpsafe.ProfileByName(h.Profile); err != nil {
			return nil, o, p, fmt.Errorf("caddysafe: %w", err)
		}
	}
	p = retrysafe.Policy{
		Lease: time.Duration(h.Lease), Timeout: time.Duration(h.Timeout), OnInFlight: retrysafe.Wait(5 * time.Second),
		Retention: retrysafe.Retention{Replay: time.Duration(h.Retention)},
	}
	if h.Wait > 0 {
		p.OnInFlight = retrysafe.Wait(time.Duration(h.Wait))
	} else if h.Wait < 0 {
		p.OnInFlight = retrysafe.Reject()
	}
	return scope, o, p, errors.Join(o.Validate(), p.Validate())
}

// shutdownPatience is how long Cleanup waits until the answers of finished work are saved.
const shutdownPatience = 10 * time.Second

// Cleanup implements caddy.CleanerUpper. After a reload the requests that began before it still run: when they have
// ended and their answers are saved, the store is closed if no other handler uses it. A new configuration has opened
// its handlers before. When Caddy exits, its requests have ended, and Cleanup waits.
func (h *Handler) Cleanup() error {
	switch {
	case h.key == "":
		return nil
	case h.guard == nil || caddy.Exiting():
		return h.release(shutdownPatience)
	}
	go func() {
		if err := h.release(h.guard.Policy().Timeout + shutdownPatience); err != nil {
			h.log.Error("requests that began before a reload have not ended in time", "error", err)
		}
	}()
	return nil
}

// release waits until the requests of the handler have ended, and gives the store back.
func (h *Handler) release(patience time.Duration) (err error) {
	if h.guard != nil {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		err = h.guard.Shutdown(ctx)
	}
	return errors.Join(err, closeShared(h.key))
}

// call is a request on its way through the middleware, whose handler is the same for all of them.
type call struct {
	next caddyhttp.Handler
	err  error
	// sent says that a service has been sent something, which may be another one than that of the last error: reverse_proxy
	// tries again with lb_retry_match.
	sent atomic.Bool
}

// traced returns the request with a context that notes what is sent. A transport that is not that of net/http, such as
// FastCGI, tells nothing but that it has connected.
func (c *call) traced(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { c.sent.Store(true) },
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				c.sent.Store(true)
			}
		},
	}))
}

type callKey struct{}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	c := &call{next: next}
	h.guarded.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
	return c.err
}

// serveNext calls the handlers after this one. An error of theirs is Caddy's, unless it ends a guarded attempt, which
// needs an answer to be recorded.
func serveNext(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(callKey{}).(*call)
	if _, guarded := retrysafe.AttemptFrom(r.Context()); !guarded {
		c.err = c.next.ServeHTTP(w, r)
		return
	}
	err := c.next.ServeHTTP(w, c.traced(r))
	if err == nil {
		return
	}
	status := http.StatusInternalServerError
	if caddys := (caddyhttp.HandlerError{}); errors.As(err, &caddys) && caddys.StatusCode != 0 {
		status = caddys.StatusCode
	}
	dial := reverseproxy.DialError{}
	switch {
	case !c.sent.Load() && (errors.As(err, &dial) || status == http.StatusServiceUnavailable):
		_ = httpsafe.Release(r.Context()) // the context is that of an attempt
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	case status >= http.StatusInternalServerError:
		_ = httpsafe.Ambiguous(r.Context())
	}
	http.Error(w, http.StatusText(status), status)
}
