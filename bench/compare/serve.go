package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/retrysafe/retrysafe/bench/loopback"
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
	_, end, err := loopback.Serve(address, h)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return end()
}
