package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Cmd serves the dashboard of a store.
type Cmd struct {
	Store string `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept: the path of a SQLite file, or the URL of a server."`
	store.Encryption
	Listen    string            `default:"127.0.0.1:8082" placeholder:"ADDR" help:"The address to listen on. Default 127.0.0.1:8082."`
	Users     string            `placeholder:"FILE" help:"File of the users who may log in: lines of a name, a role (look, resolve or purge) and sha256:HASH of a token. Users are required unless the address is of this machine only."`
	Links     map[string]string `name:"link" mapsep:"none" placeholder:"NAME=URL" help:"A link from the page of a key to another site, such as the dashboard of a payment provider: Stripe='https://dashboard.stripe.com/search?query={tag:order}'. {tag:NAME} is a tag of the key, {digest} its digest, {upstream_key} the key that a proxy's upstream got, if it was made without a secret. The flag may be repeated."`
	OIDC      oidcFlags         `embed:"" prefix:"oidc-"`
	Second    []string          `name:"second-person" placeholder:"KINDS" help:"Decisions that another user must confirm: some of resolve, purge and reopen, with commas between them. Needs --proposals."`
	Proposals string            `placeholder:"FILE" help:"The file that keeps such decisions until they are confirmed, for at most 24 hours. Each dashboard needs its own."`
	TLSCert   string            `name:"tls-cert" placeholder:"FILE" help:"The file of the certificate chain, for TLS."`
	TLSKey    string            `name:"tls-key" placeholder:"FILE" help:"The file of the certificate's private key."`
}

// oidcFlags say where users log in.
type oidcFlags struct {
	Issuer       string            `placeholder:"URL" help:"The OpenID provider at which users log in, such as https://login.example.com. The other flags of the provider need it."`
	ClientID     string            `name:"client-id" placeholder:"ID" help:"The client ID that the dashboard has at the provider."`
	ClientSecret string            `name:"client-secret-file" placeholder:"FILE" help:"File with the client secret. Instead, RETRYSAFE_OIDC_CLIENT_SECRET may have it. Without one the client is a public one."`
	RedirectURL  string            `name:"redirect-url" placeholder:"URL" help:"Where the provider sends browsers back to: https://, the dashboard's host, and /oidc/callback."`
	Roles        map[string]string `name:"role" mapsep:"none" placeholder:"GROUP=ROLE" help:"Users of this group have the role look, resolve or purge. The flag may be repeated."`
	Claim        string            `default:"groups" placeholder:"NAME" help:"The claim of the token that has the groups. Default groups."`
	Scopes       []string          `default:"profile,email" placeholder:"NAMES" help:"Scopes to request beside openid; some providers give groups only with groups among them. Default profile,email."`
}

const secretVariable = "RETRYSAFE_OIDC_CLIENT_SECRET"

// options returns what the flags say; nil: there is no provider.
func (f oidcFlags) options() (*OIDC, error) {
	if f.Issuer == "" {
		if f.ClientID != "" || f.ClientSecret != "" || f.RedirectURL != "" || len(f.Roles) > 0 {
			return nil, errors.New("write --oidc-issuer too: the other flags that begin with --oidc- are about it")
		}
		return nil, nil
	}
	o := &OIDC{ClientID: f.ClientID, ClientSecret: os.Getenv(secretVariable), Claim: f.Claim, Scopes: f.Scopes, Roles: map[string]Role{}}
	var err error
	if o.Issuer, err = ParseIssuer(f.Issuer); err != nil {
		return nil, yamlfile.ForFlag("--oidc-issuer", err)
	}
	if f.RedirectURL != "" {
		if o.RedirectURL, err = ParseRedirectURL(f.RedirectURL); err != nil {
			return nil, yamlfile.ForFlag("--oidc-redirect-url", err)
		}
	}
	for group, name := range f.Roles {
		if o.Roles[group], err = ParseRole(name); err != nil {
			return nil, yamlfile.ForFlag("--oidc-role "+cli.Clean(group), err)
		}
	}
	if f.ClientSecret != "" {
		text, err := os.ReadFile(f.ClientSecret)
		if err != nil {
			return nil, fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
		o.ClientSecret = strings.TrimRight(string(text), "\r\n")
	}
	return o, o.Check()
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `The dashboard shows the keys of a store in a browser: how many there are, what became of one, and which wait for
a person, who can decide them there. A running proxy serves the same with --dashboard, and its traffic too.

Examples:

    # on your own machine: no login
    retrysafe dashboard --store keys.db

    # for a team: each has a token, and a role
    token=$(head -c 32 /dev/urandom | base64)
    echo "alice resolve sha256:$(printf %s "$token" | sha256sum | cut -d' ' -f1)" >> users
    retrysafe dashboard --store postgres://app@db/shop --listen :8082 --users users --tls-cert cert.pem --tls-key key.pem

    # for a team that has an OpenID provider: groups have roles
    retrysafe dashboard --store postgres://app@db/shop --listen :8082 --tls-cert cert.pem --tls-key key.pem \
        --oidc-issuer https://login.example.com --oidc-client-id retrysafe --oidc-client-secret-file secret \
        --oidc-redirect-url https://ops.example.com/oidc/callback --oidc-role staff=look --oidc-role payments=resolve

    # what cannot be undone takes two persons
    retrysafe dashboard --store keys.db --users users --second-person purge,reopen --proposals proposals.json

    # from the page of a key to its charge at the provider
    retrysafe dashboard --store keys.db --link Stripe='https://dashboard.stripe.com/search?query={tag:order}'

If the store's database has outboxes, their dead letters are shown, too, and can be delivered again or dropped.

A SQLite file that a running proxy has open is reached over the socket beside the file, as by retrysafe keys. If no
proxy runs, the dashboard opens the file, and a proxy cannot start until the dashboard has ended.

https://github.com/retrysafe/retrysafe/blob/main/docs/dashboard.md explains the pages, roles and protections.

The exit status is 0 after SIGINT or SIGTERM, 1 after a failure, 2 if flags or the file of users are wrong.`
}

// Run serves until a signal arrives.
func (c Cmd) Run(s *cli.Streams) error {
	provider, err := c.OIDC.options()
	if err != nil {
		return cli.Refuse(err)
	}
	if err := CheckListen(c.Listen, c.Users != "" || provider != nil); err != nil {
		return err
	}
	if err := CheckUsers(c.Users); err != nil {
		return cli.Refuse(err)
	}
	second, err := NewSecondPerson(c.Second, c.Proposals)
	if err == nil && second != nil && c.Users == "" && provider == nil {
		err = errors.New("--second-person needs users who log in: without --users or --oidc-issuer, one person could be two")
	}
	if err != nil {
		return cli.Refuse(err)
	}
	links, err := newLinks(c.Links)
	if err != nil {
		return cli.Refuse(err)
	}
	settings, err := c.tls()
	if err != nil {
		return cli.Refuse(err)
	}
	ref, err := store.Existing(c.Store, "memory: belongs to the process that uses it: start that proxy with --dashboard")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(s.Err, nil))
	found, closeStore, err := keys.Open(ctx, ref, c.Encryption)
	if err != nil {
		return fmt.Errorf("store %s: %w", ref.Name, err)
	}
	boxes, err := c.outboxes(ctx, ref)
	if err != nil {
		return errors.Join(err, closeStore())
	}
	defer boxes.Close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), closeStore())
	}
	server := NewServer(New(Options{
		Keys: found, Store: ref.Name, Outboxes: boxes, Users: c.Users, OIDC: provider, Log: log, Links: links,
		SecondPerson: second,
	}), settings, log)
	failed := make(chan error, 1)
	go func() { failed <- Serve(server, listener) }()
	log.Info("the dashboard listens", "url", URL(listener, settings != nil), "store", ref.Name, "login", c.Users != "" || provider != nil)
	if settings == nil && CheckListen(c.Listen, false) != nil {
		log.Warn("the dashboard is served without TLS: the tokens of its users can be read on the network", "instead",
			"write --tls-cert and --tls-key, or listen at 127.0.0.1 behind a server that has TLS")
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
		done, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = server.Shutdown(done)
		server.Close()
	}
	return errors.Join(err, closeStore())
}

func (c Cmd) outboxes(ctx context.Context, ref store.Ref) (*outboxcmd.Database, error) {
	ring, err := c.Keys()
	if err != nil {
		return nil, err
	}
	return outboxcmd.OpenDatabase(ctx, ref, ring)
}

func (c Cmd) tls() (*tls.Config, error) {
	switch {
	case c.TLSCert == "" && c.TLSKey == "":
		return nil, nil
	case c.TLSCert == "" || c.TLSKey == "":
		return nil, errors.New("a certificate needs its key, and a key its certificate: write both --tls-cert and --tls-key")
	}
	certificate, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, nil
}

// Serve serves until the server is closed.
func Serve(server *http.Server, l net.Listener) (err error) {
	if server.TLSConfig != nil {
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// URL is where a browser finds the dashboard.
func URL(l net.Listener, isTLS bool) string {
	if isTLS {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}
