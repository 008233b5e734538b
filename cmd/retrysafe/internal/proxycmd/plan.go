package proxycmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// plan is a configuration that has passed every check without side effects.
type plan struct {
	config   *config.Config
	store    store.Ref
	scope    scopeSettings
	options  proxy.Options
	guard    retrysafe.Options
	tls      *tls.Config        // nil: none
	keyset   *cryptstore.Keyset // nil: nothing is encrypted
	provider *dashboard.OIDC    // nil: users of the dashboard log in at none
}

// newPlan checks a configuration. The error has every fault that is found.
func newPlan(c *config.Config) (*plan, error) {
	p := &plan{config: c, scope: scopeSettings{
		scope: c.Scope.Value, issuer: c.JWT.Issuer.Value, audience: c.JWT.Audience.Value,
		claim: c.JWT.Claim.Value, same: c.Callers.Names(),
	}}
	var noStore, noOptions, noGuard, noTLS, noKeyset, noProvider error
	noUsers := dashboard.CheckUsers(c.Dashboard.Users.Value)
	p.store, noStore = store.Parse(c.Store.Value)
	if noStore == nil && c.CompletesUpstream() {
		noStore = p.store.CheckCompletion()
	}
	p.options, noOptions = c.Proxy()
	p.guard, noGuard = c.Guard()
	p.tls, noTLS = loadTLS(c.TLS)
	p.keyset, noKeyset = c.Keyset()
	p.provider, noProvider = c.Dashboard.Provider()
	if noOptions == nil && noGuard == nil {
		// This proxy serves nothing. Making it checks the routes.
		guard, o := retrysafe.New(nil, p.guard), p.options
		o.Routes = slices.Clone(o.Routes)
		(&inboxes{circuits: circuits{}}).install(&o, c.Inboxes())
		o.Observation = httpsafe.NewObservation(guard, httpsafe.ObservationOptions{})
		_, noOptions = proxy.New(guard, func(*http.Request) (string, error) { return "", nil }, o)
	}
	if err := errors.Join(checkScope(c), noOptions, noGuard, noTLS, noKeyset, noUsers, noProvider); err != nil {
		return nil, errors.Join(noStore, cli.Refuse(err))
	}
	if noStore == nil {
		noStore = p.checkInboxes()
	}
	return p, noStore
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
	settings := &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
	if t.ClientCA.Set {
		settings.ClientAuth = tls.RequireAndVerifyClientCert
		if settings.ClientCAs, err = config.LoadCertificates(t.ClientCA.Value); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	return settings, nil
}

// run opens what the plan names, serves until a signal arrives, and closes everything in reverse order.
func (p Cmd) run(ctx context.Context, first reading, logs io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hangups, stopHangups := p.hangups() // from now on, so that one that comes early does not kill
	defer stopHangups()
	s := &service{
		plan: first.plan, command: p, tried: first, hangups: hangups, logs: logs, failed: make(chan error, 2),
		traffic: traffic.NewMeter(),
	}
	return s.open(ctx)
}

// closePatience is how long the store may take to close. With it, with grace and with the last spans a process ends
// before the manager of docs/production.md kills it.
const closePatience = 5 * time.Second

// closeWithin closes the store, but does not wait longer for one that does not answer: nothing is left to be saved.
func closeWithin(patience time.Duration, closeStore func() error, log *slog.Logger) error {
	closed := make(chan error, 1)
	go func() { closed <- closeStore() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(patience):
		log.Warn("the store does not answer: the process ends without closing it")
		return nil
	}
}

// open opens what the plan names and serves.
func (s *service) open(ctx context.Context) (err error) {
	p := s.plan
	limitMemory()
	go returnMemory(ctx)
	log := newLogger(p.config.Log.Value, s.logs)
	s.log = log
	logWarnings(log, p.config)
	logMadeKeys(log, p)
	var scoped context.Context
	scoped, s.stopScope = context.WithCancel(ctx)
	scope, err := p.scope.open(scoped, log)
	if err != nil {
		return fmt.Errorf("scope %s: %w", p.scope.scope, err)
	}
	if err := s.listenForAdmin(); err != nil {
		return err
	}
	defer s.close()
	if err := s.listenForDashboard(); err != nil {
		return err
	}
	store, closeStore, err := p.openStore(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWithin(closePatience, closeStore, log)) }()
	if p.keyset != nil {
		s.keys = cryptstore.NewKeyring(p.keyset)
		store = cryptstore.New(store, s.keys, p.config.Crypt())
	}

	logRisks(ctx, log, store)
	counting, stopCounting := context.WithCancel(ctx)
	var counted sync.WaitGroup
	counted.Go(unfinished(counting, log, store, p.store))
	defer counted.Wait()
	defer stopCounting()

	traced, err := newTraces(ctx, p.config, log)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	defer traced.close()
	if traced != nil {
		p.options.TraceFunc = traced.start
	}
	seen, err := p.observe(store, traced, log)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer func() { err = errors.Join(err, seen.close()) }()

	p.guard.Observer, p.guard.MaxUnsaved = seen.observer, int(p.options.Limits.Memory)
	guard := retrysafe.New(seen.store, p.guard)
	if err := seen.watch(guard); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	observed, err := startObserving(guard, seen)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer observed.stop()
	p.options.Observation = observed.Observation
	s.report.Store(observed)
	closeDashboard, err := s.openDashboard(ctx, store, seen)
	if err != nil {
		return fmt.Errorf("the dashboard: %w", err)
	}
	defer closeDashboard()
	isShown := s.admin != nil || s.dashboard != nil
	p.options.Observer = proxy.ObserverFunc(func(ctx context.Context, e proxy.Event) {
		seen.requests(ctx, e)
		s.tail.Observe(ctx, e)
		if isShown {
			s.traffic.Observe(ctx, e)
		}
	})
	p.options.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	if s.inboxes, err = s.openInboxes(ctx, seen); err != nil {
		return err
	}
	defer s.inboxes.close()
	var accepting map[string]*inbox.Inbox
	if s.inboxes != nil {
		accepting = s.inboxes.install(&p.options, p.config.Inboxes())
	}
	handler, err := proxy.New(guard, scope, p.options)
	if err != nil {
		return err
	}
	stopKeys := p.serveKeys(log, store, seen.observer)
	defer stopKeys()
	s.guard, s.handler, s.reloaded = guard, handler, seen.reloaded
	s.startInboxes(accepting)
	s.inForce.Store(p)
	if seen.metrics != nil {
		s.metrics.Store(&seen.metrics)
	}
	s.health.opened(store)
	return s.serve(ctx)
}

// logWarnings logs what is allowed in a configuration, and should be known.
func logWarnings(log *slog.Logger, c *config.Config) {
	for _, w := range c.Warnings() {
		log.Warn("configuration", "line", w.At.Line, "warning", w.Message, "instead", w.Instead)
	}
}

// openStore opens the store, and waits for its server.
func (p *plan) openStore(ctx context.Context, log *slog.Logger) (retrysafe.Store, func() error, error) {
	return p.store.OpenPatiently(ctx, func(err error, pause time.Duration, giveUp time.Time) {
		log.Warn("the store cannot be reached; trying again", "error", err, "in", pause.String(),
			"until", giveUp.Format(time.RFC3339))
	})
}
