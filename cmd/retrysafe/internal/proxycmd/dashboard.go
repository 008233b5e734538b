package proxycmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
)

// listenForDashboard starts the server of the dashboard. It has pages once the store is open. If the server fails
// later, the proxy goes on without it.
func (s *service) listenForDashboard() error {
	if !s.config.Dashboard.Listen.Set {
		return nil
	}
	listener, err := net.Listen("tcp", s.config.Dashboard.Listen.Value)
	if err != nil {
		return fmt.Errorf("listen for --dashboard: %w", err)
	}
	settings := s.tlsForDashboard()
	s.dashboardURL = dashboard.URL(listener, settings != nil)
	s.dashboard = dashboard.NewServer(http.HandlerFunc(s.serveDashboard), settings, s.log)
	go func() {
		if err := dashboard.Serve(s.dashboard, listener); err != nil {
			s.log.Error("the dashboard is no longer served", "error", err)
		}
	}()
	return nil
}

func (s *service) serveDashboard(w http.ResponseWriter, r *http.Request) {
	if pages := s.pages.Load(); pages != nil {
		pages.ServeHTTP(w, r)
		return
	}
	http.Error(w, "the store is not open yet", http.StatusServiceUnavailable)
}

// tlsForDashboard returns the TLS of the proxy without certificates of clients, for users who log in. Without a login,
// the dashboard has names of this machine only, which no certificate is for.
func (s *service) tlsForDashboard() *tls.Config {
	if s.tls == nil || !s.config.Dashboard.HasLogin() {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			p := s.plan
			if now := s.inForce.Load(); now != nil {
				p = now
			}
			settings := p.tls.Clone()
			settings.ClientAuth, settings.ClientCAs = tls.NoClientCert, nil
			return settings, nil
		},
	}
}

// openDashboard gives the dashboard its pages, and returns what closes it.
func (s *service) openDashboard(ctx context.Context, store retrysafe.Store, seen observation) (func(), error) {
	if s.dashboard == nil {
		return func() {}, nil
	}
	second, err := dashboard.NewSecondPerson(s.config.Dashboard.SecondPerson.Value, s.config.Dashboard.Proposals.Value)
	if err != nil {
		return nil, err
	}
	boxes, err := outboxcmd.OpenDatabase(ctx, s.store, s.keys)
	if err != nil {
		return nil, err
	}
	s.pages.Store(dashboard.New(dashboard.Options{
		Keys: s.keysOf(store, seen.observer), Store: s.store.Name, Users: s.config.Dashboard.Users.Value,
		OIDC: s.provider, SecondPerson: second, Log: s.log,
		Traffic: s.traffic, ConfigFunc: s.effective, Outboxes: boxes, Links: s.config.Dashboard.Links.Value,
	}))
	return boxes.Close, nil
}

// effective returns the configuration in force, without the password of the store.
func (s *service) effective() string {
	now := s.inForce.Load()
	if now == nil {
		return ""
	}
	c := *now.config
	c.Store.Value = s.store.Name
	return c.Effective()
}
