package proxycmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// plan is a configuration that has passed every check without side effects.
type plan struct {
	config  *config.Config
	store   store.Ref
	scope   scopeSettings
	options proxy.Options
	tls     *tls.Config // nil: none
}

func newPlan(c *config.Config) (*plan, error) {
	p := &plan{config: c}
	var err error
	if p.store, err = store.Parse(c.Store.Value); err != nil {
		return nil, err
	}
	if c.CompletesUpstream() {
		if err := p.store.CheckCompletion(); err != nil {
			return nil, err
		}
	}
	if err := checkScope(c); err != nil {
		return nil, cli.Refuse(err)
	}
	p.scope = scopeSettings{
		scope: c.Scope.Value, issuer: c.JWT.Issuer.Value, audience: c.JWT.Audience.Value,
		claim: c.JWT.Claim.Value, same: c.Callers.Names(),
	}
	if p.options, err = c.Proxy(); err != nil {
		return nil, cli.Refuse(err)
	}
	if p.tls, err = loadTLS(c.TLS); err != nil {
		return nil, cli.Refuse(err)
	}
	// This proxy serves nothing. Making it checks the routes.
	guard := retrysafe.New(nil, retrysafe.Options{})
	p.options.Observation = httpsafe.NewObservation(guard, httpsafe.ObservationOptions{})
	_, err = proxy.New(guard, func(*http.Request) (string, error) { return "", nil }, p.options)
	if err != nil {
		return nil, cli.Refuse(err)
	}
	return p, nil
}

// loadTLS returns the server's TLS settings; nil if it has none.
func loadTLS(t config.TLS) (*tls.Config, error) {
	if !t.Cert.Set {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(t.Cert.Value, t.Key.Value)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if t.ClientCA.Set {
		settings.ClientAuth = tls.RequireAndVerifyClientCert
		if settings.ClientCAs, err = config.LoadCertificates(t.ClientCA.Value); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	return settings, nil
}

// run opens what the plan names, serves until a signal arrives, and closes everything in reverse order.
func (p *plan) run(ctx context.Context, logs io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	limitMemory()
	go returnMemory(ctx)
	log := newLogger(p.config.Log.Value, logs)
	for _, w := range p.config.Warnings() {
		log.Warn("configuration", "line", w.At.Line, "warning", w.Message, "instead", w.Instead)
	}
	scope, err := p.scope.open(ctx, log)
	if err != nil {
		return fmt.Errorf("scope %s: %w", p.scope.scope, err)
	}
	s := &service{plan: p, log: log, failed: make(chan error, 2)}
	if err := s.listenForAdmin(); err != nil {
		return err
	}
	defer s.close()
	store, closeStore, err := p.openStore(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	logRisks(ctx, log, store)
	logUnfinished(ctx, log, store, p.store) // before requests come

	seen, err := p.observe(store, log)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer func() { err = errors.Join(err, seen.close()) }()

	guard := retrysafe.New(seen.store, retrysafe.Options{
		Observer: seen.observer, MaxUnsaved: int(p.options.Limits.Memory),
	})
	if err := seen.watch(guard); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	observed, err := p.startObserving(guard, seen)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer observed.stop()
	if observed != nil {
		p.options.Observation = observed.Observation
		s.report.Store(observed)
	}
	p.options.Observer = seen.requests
	p.options.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	handler, err := proxy.New(guard, scope, p.options)
	if err != nil {
		return err
	}
	stopKeys := p.serveKeys(log, store, seen.observer)
	defer stopKeys()
	s.guard, s.handler = guard, handler
	if seen.metrics != nil {
		s.metrics.Store(&seen.metrics)
	}
	s.health.opened(store)
	return s.serve(ctx)
}

// openStore opens the store, and waits for its server.
func (p *plan) openStore(ctx context.Context, log *slog.Logger) (retrysafe.Store, func() error, error) {
	return p.store.OpenPatiently(ctx, func(err error, pause time.Duration, giveUp time.Time) {
		log.Warn("the store cannot be reached; trying again", "error", err, "in", pause.String(),
			"until", giveUp.Format(time.RFC3339))
	})
}
