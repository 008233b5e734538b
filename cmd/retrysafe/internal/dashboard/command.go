package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
)

// Cmd serves the dashboard of a store.
type Cmd struct {
	Store string `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept: the path of a SQLite file, or the URL of a server."`
	store.Encryption
	Listen  string            `default:"127.0.0.1:8082" placeholder:"ADDR" help:"The address to listen on. Default 127.0.0.1:8082."`
	Users   string            `placeholder:"FILE" help:"File of the users who may log in: lines of a name, a role (look, resolve or purge) and sha256:HASH of a token. Required unless the address is of this machine only."`
	Links   map[string]string `name:"link" mapsep:"none" placeholder:"NAME=URL" help:"A link from the page of a key to another site, such as the dashboard of a payment provider: Stripe='https://dashboard.stripe.com/search?query={tag:order}'. {tag:NAME} is a tag of the key, {digest} its digest. The flag may be repeated."`
	TLSCert string            `name:"tls-cert" placeholder:"FILE" help:"The file of the certificate chain, for TLS."`
	TLSKey  string            `name:"tls-key" placeholder:"FILE" help:"The file of the certificate's private key."`
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
	if err := CheckListen(c.Listen, c.Users); err != nil {
		return err
	}
	if err := CheckUsers(c.Users); err != nil {
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
		Keys: found, Store: ref.Name, Outboxes: boxes, Users: c.Users, Log: log, Links: links,
	}), settings, log)
	failed := make(chan error, 1)
	go func() { failed <- Serve(server, listener) }()
	log.Info("the dashboard listens", "url", URL(listener, settings != nil), "store", ref.Name, "login", c.Users != "")
	if settings == nil && CheckListen(c.Listen, "") != nil {
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
