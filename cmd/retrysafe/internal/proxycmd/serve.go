package proxycmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/tailcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
	"github.com/retrysafe/retrysafe/extproc"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// service is the running proxy.
type service struct {
	*plan   // at start
	inForce atomic.Pointer[plan]
	log     *slog.Logger
	logs    io.Writer // where log writes
	guard   *retrysafe.Guard
	handler *proxy.Proxy
	keys    *cryptstore.Keyring // nil: nothing is encrypted
	health  health
	metrics atomic.Pointer[http.Handler] // nil: none, or not yet
	report  atomic.Pointer[observing]    // nil: not yet
	tail    tailcmd.Hub
	traffic *traffic.Meter
	inboxes *inboxes                       // nil: there is none
	envoy   atomic.Pointer[extproc.Server] // nil: Envoy does not ask

	public, admin, dashboard   *http.Server
	adminAddress, dashboardURL string
	pages                      atomic.Pointer[dashboard.Dashboard] // nil: not yet
	failed                     chan error                          // what ended a server

	// For reload, which runs in one goroutine.
	command   Cmd
	hangups   chan os.Signal
	tried     reading            // the last one
	stopScope context.CancelFunc // ends the refreshing of keys for tokens
	reloaded  func(ctx context.Context, ok bool)
}

// serve listens until the context ends or a signal arrives, and then shuts down. A closed terminal (SIGHUP without a
// file) is no reason to cut operations off.
func (s *service) serve(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if s.command.Config == "" {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	if err := s.listen(); err != nil {
		s.close()
		return err
	}
	reloading, stopReloads := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	reloads.Go(func() { s.reloads(reloading) })
	defer reloads.Wait()
	defer stopReloads()
	select {
	case err := <-s.failed:
		s.close()
		return err
	case received := <-signals:
		s.health.drain() // before the log says so
		s.log.Info("shutting down", "signal", received.String(), "grace", s.inForce.Load().config.Grace.Value.String())
	case <-ctx.Done():
		s.health.drain()
	}
	stopReloads()
	return s.shutdown(signals)
}

// listenForAdmin starts the server for health checks and metrics. It serves before the store is open.
func (s *service) listenForAdmin() error {
	if !s.config.Admin.Set {
		return nil
	}
	listener, err := net.Listen("tcp", s.config.Admin.Value)
	if err != nil {
		return fmt.Errorf("listen for --admin: %w", err)
	}
	s.adminAddress = listener.Addr().String()
	s.admin = &http.Server{Handler: s.adminHandler(), ReadHeaderTimeout: s.config.Limits.HeaderTimeout.Value}
	go func() { s.failed <- ended(s.admin.Serve(listener)) }()
	return nil
}

// listen starts the server for requests.
func (s *service) listen() error {
	listener, err := net.Listen("tcp", s.config.Listen.Value)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.public = s.newServer(s.publicHandler())
	s.log.Info("listening",
		"address", listener.Addr().String(),
		"tls", s.tls != nil,
		"admin", s.adminAddress,
		"dashboard", s.dashboardURL,
		"upstream", s.options.Upstream.URL.String(),
		"store", s.store.Name,
		"scope", s.config.Scope.Value,
		"routes", len(s.config.Routes),
		"observes", s.config.Observes(),
		"version", cli.Version(),
	)
	go func() { s.failed <- ended(s.serveOn(listener)) }() // what has an answer can find the line above in the log
	return nil
}

// publicHandler answers clients, or Envoy's questions about them.
func (s *service) publicHandler() http.Handler {
	if !s.config.ExtProc.Value {
		return s.handler
	}
	s.answerEnvoy(s.config)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.envoy.Load().ServeHTTP(w, r) })
}

// answerEnvoy lets Envoy's calls that come from now on have the limits of a configuration.
func (s *service) answerEnvoy(c *config.Config) {
	o := c.ExtProcOptions()
	o.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelError)
	s.envoy.Store(extproc.New(s.handler, o))
}

// adminHandler serves health checks and metrics.
func (s *service) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.health.handler())
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		report, now := s.report.Load(), s.inForce.Load()
		switch {
		case report == nil || now == nil:
			http.Error(w, "the store is not open yet", http.StatusServiceUnavailable)
		case !now.config.Observes() && len(report.Counts()) == 0:
			http.NotFound(w, r)
		default:
			report.ServeHTTP(w, r)
		}
	})
	s.tail.Routes = s.routes
	mux.Handle("GET /events", &s.tail)
	mux.Handle("GET /stats", s.traffic)
	if s.config.Metrics.Value {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if metrics := s.metrics.Load(); metrics != nil {
				(*metrics).ServeHTTP(w, r)
				return
			}
			http.Error(w, "the store is not open yet", http.StatusServiceUnavailable)
		})
	}
	return mux
}

// routes returns the patterns of the routes in force.
func (s *service) routes() (patterns []string) {
	if now := s.inForce.Load(); now != nil {
		for _, r := range now.options.Routes {
			patterns = append(patterns, r.Pattern)
		}
	}
	return patterns
}

func (s *service) newServer(h http.Handler) *http.Server {
	limits := s.config.Limits
	server := &http.Server{
		Handler:           h,
		TLSConfig:         s.tlsInForce(),
		ReadHeaderTimeout: limits.HeaderTimeout.Value,
		IdleTimeout:       limits.IdleTimeout.Value,
		MaxHeaderBytes:    int(limits.HeaderBytes.Value),
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(s.config.H2C.Value || s.config.ExtProc.Value)
	if s.config.ExtProc.Value { // the handler refuses what is too much, with an answer
		server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 4 * s.config.Limits.Concurrent.Value}
	}
	return server
}

// tlsInForce returns settings that let each new connection have those in force; nil if there is no TLS.
func (s *service) tlsInForce() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.inForce.Load().tls, nil },
	}
}

func (s *service) serveOn(l net.Listener) error {
	if s.tls != nil {
		return s.public.ServeTLS(l, "", "")
	}
	return s.public.Serve(l)
}

// ended returns the error of a server, unless the server was closed on purpose.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// shutdown waits for running operations, until the grace has passed or a second signal arrives.
func (s *service) shutdown(signals <-chan os.Signal) error {
	ctx, stop := context.WithTimeout(context.Background(), s.inForce.Load().config.Grace.Value)
	defer stop()
	go s.handler.Hurry(ctx) // do not wait for clients that send or read slowly
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-signals:
			stop()
		case <-done:
		}
	}()
	delivered := make(chan struct{})
	go func() {
		s.inboxes.end()
		close(delivered)
	}()
	err := s.public.Shutdown(ctx)
	select {
	case <-delivered:
	case <-ctx.Done():
	}
	err = errors.Join(err, s.guard.Shutdown(ctx))
	s.close()
	if err != nil {
		return errors.New("gave up waiting: operations that were still running are cut off, and the outcome of their " +
			"keys is unknown")
	}
	s.log.Info("stopped")
	return nil
}

// close closes everything at once.
func (s *service) close() {
	for _, server := range []*http.Server{s.public, s.admin, s.dashboard} {
		if server != nil {
			server.Close()
		}
	}
	if s.handler != nil {
		s.handler.CloseIdleConnections()
	}
}
