package proxycmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/proxy"
)

// service is the running proxy.
type service struct {
	*plan
	log     *slog.Logger
	guard   *retrysafe.Guard
	handler *proxy.Proxy
	health  *health
	metrics http.Handler // nil: none

	public, admin *http.Server
}

// serve listens until the context ends or a signal arrives, and then shuts down.
func (s *service) serve(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	failed := make(chan error, 2)
	if err := s.listen(failed); err != nil {
		s.close()
		return err
	}
	select {
	case err := <-failed:
		s.close()
		return err
	case received := <-signals:
		s.health.drain() // before the log says so
		s.log.Info("shutting down", "signal", received.String(), "grace", s.config.Grace.Value.String())
	case <-ctx.Done():
		s.health.drain()
	}
	return s.shutdown(signals)
}

// listen starts both servers. Errors that end one of them later come through failed.
func (s *service) listen(failed chan<- error) error {
	listener, err := net.Listen("tcp", s.config.Listen.Value)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.public = s.newServer(s.handler)
	admin := ""
	if s.config.Admin.Set {
		l, err := net.Listen("tcp", s.config.Admin.Value)
		if err != nil {
			listener.Close()
			return fmt.Errorf("listen for --admin: %w", err)
		}
		admin = l.Addr().String()
		s.admin = &http.Server{Handler: s.adminHandler(), ReadHeaderTimeout: s.config.Limits.HeaderTimeout.Value}
		go func() { failed <- ended(s.admin.Serve(l)) }()
	}
	go func() { failed <- ended(s.serveOn(listener)) }()
	s.log.Info("listening",
		"address", listener.Addr().String(),
		"tls", s.tls != nil,
		"admin", admin,
		"upstream", s.config.Upstream.URL.Value.String(),
		"store", s.store.Name,
		"scope", s.config.Scope.Value,
		"routes", len(s.config.Routes),
		"version", cli.Version(),
	)
	return nil
}

// adminHandler serves health checks and metrics.
func (s *service) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.health.handler())
	if s.metrics != nil {
		mux.Handle("GET /metrics", s.metrics)
	}
	return mux
}

func (s *service) newServer(h http.Handler) *http.Server {
	limits := s.config.Limits
	server := &http.Server{
		Handler:           h,
		TLSConfig:         s.tls,
		ReadHeaderTimeout: limits.HeaderTimeout.Value,
		IdleTimeout:       limits.IdleTimeout.Value,
		MaxHeaderBytes:    int(limits.HeaderBytes.Value),
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(s.config.H2C.Value)
	return server
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
	ctx, stop := context.WithTimeout(context.Background(), s.config.Grace.Value)
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
	err := errors.Join(s.public.Shutdown(ctx), s.guard.Shutdown(ctx))
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
	for _, server := range []*http.Server{s.public, s.admin} {
		if server != nil {
			server.Close()
		}
	}
	s.handler.CloseIdleConnections()
}
