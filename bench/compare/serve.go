package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// role is what a process of this program serves: one peer, until it is told to end.
type role struct {
	name    string // of the peer
	profile string // of the probe
	address string // host and port
	dir     string // for its data
	server  string // Restate's binary
}

// api is where the effects of a role are counted.
func (r role) api() api { return api{effects: effects(filepath.Join(r.dir, "effects"))} }

// play serves until ctx ends.
func (r role) play(ctx context.Context) error {
	switch r.name {
	case "httpsafe-memstore", "httpsafe-sqlite":
		return r.playMiddleware(ctx)
	case "proxy-memstore", "proxy-sqlite":
		return r.playProxy(ctx)
	case "fiber":
		return r.playFiber(ctx)
	case "restate":
		return r.playRestate(ctx)
	}
	return fmt.Errorf("no peer %q is served by this program", r.name)
}

// serve serves h at the address until ctx ends.
func serve(ctx context.Context, address string, h http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
