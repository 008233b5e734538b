package proxycmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// tryTimeout bounds each check.
const tryTimeout = 10 * time.Second

// check is one part of --check. If found is empty, there was nothing to check.
type check struct {
	what string
	try  func(context.Context) (found string, err error)
}

// try checks the store, the upstreams, and what scope, auth and reconcile need. It writes a line for each, and returns an
// error if one has failed. It sends no request to an upstream and creates no file.
func (p *plan) try(ctx context.Context, out io.Writer) error {
	checks := []check{
		{"store " + p.store.Name, func(ctx context.Context) (string, error) { return tryStore(ctx, p.store) }},
		{"scope " + p.scope.scope, p.scope.try},
	}
	for _, to := range p.config.Upstreams() {
		checks = slices.Insert(checks, len(checks)-1, check{
			"upstream " + to.Value.String(),
			func(ctx context.Context) (string, error) {
				return "accepts connections", reach(ctx, to.Value, p.options.Upstream.TLS)
			},
		})
	}
	if auth := p.config.Auth.Value; auth != nil {
		checks = append(checks, check{"auth " + auth.Host, func(ctx context.Context) (string, error) {
			return "accepts connections", reach(ctx, auth, nil)
		}})
	}
	for _, service := range p.config.Reconcilers() {
		checks = append(checks, check{"reconcile " + service.Value.Host, func(ctx context.Context) (string, error) {
			return "accepts connections", reach(ctx, service.Value, nil)
		}})
	}
	failed := 0
	for _, t := range checks {
		ctx, stop := context.WithTimeout(ctx, tryTimeout)
		found, err := t.try(ctx)
		stop()
		switch {
		case err != nil:
			failed++
			fmt.Fprintf(out, "FAILED  %s: %s\n", t.what, strings.TrimPrefix(err.Error(), t.what+": "))
		case found != "":
			fmt.Fprintf(out, "ok      %s: %s\n", t.what, found)
		}
	}
	if failed > 0 {
		return fmt.Errorf("the configuration is valid, but %d of the checks above failed; --offline skips them", failed)
	}
	return nil
}

// tryStore claims a key and releases it. It does not create a file.
func tryStore(ctx context.Context, r store.Ref) (found string, err error) {
	if r.Memory {
		return "kept in memory: every key is forgotten when the process ends", nil
	}
	if _, err := os.Stat(r.Path); r.Path != "" && errors.Is(err, fs.ErrNotExist) {
		return "does not exist yet; the proxy creates it when it starts", nil
	}
	store, closeStore, err := r.Open(ctx)
	switch {
	case errors.Is(err, sqlitestore.ErrInUse):
		return "not checked: another process uses it, such as a running proxy; a second proxy would be refused", nil
	case err != nil:
		return "", err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	return "takes keys", takesKeys(ctx, store)
}

// try fetches the keys for tokens. Other scopes need nothing.
func (s scopeSettings) try(ctx context.Context) (found string, err error) {
	if !strings.HasPrefix(s.scope, "jwt:") {
		return "", nil
	}
	_, err = s.open(ctx, newLogger("text", io.Discard))
	return "the keys for tokens can be fetched", err
}

// reach connects to the server of a URL, and closes the connection.
func reach(ctx context.Context, u *url.URL, settings *tls.Config) error {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if u.Scheme == "https" {
		dialer = &tls.Dialer{Config: settings}
	}
	c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return fmt.Errorf("cannot connect: %w; %s", err, adviceOn(err))
	}
	return c.Close()
}

// adviceOn returns what to do if an upstream cannot be reached.
func adviceOn(err error) string {
	var unknown x509.UnknownAuthorityError
	var name *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return "name a file with the certificates of its CA: upstream: {url: …, ca: FILE}"
	case errors.As(err, &name):
		return "check the host name"
	}
	return "start it, or correct its address"
}
