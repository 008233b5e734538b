package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
	"github.com/retrysafe/retrysafe/bench/loopback"
)

// role is what a process of this program serves: one peer, until it is told to end.
type role struct {
	name    string // of the peer
	profile string // of the probe
	address string // host and port
	dir     string // for its data
	server  string // what the subject's runner has installed
	store   string // URL of the server that keeps the records, if there is one
}

// api is where the effects of a role are counted.
func (r role) api() orders.API { return orders.API{Effects: filepath.Join(r.dir, "effects")} }

// environment tells a program its role: see orders.Program.
func (r role) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "NODE_ENV=production", "ADDRESS=" + r.address,
		"EFFECTS=" + r.api().Effects, "STORE=" + r.store, "DIR=" + r.dir, "PROFILE=" + r.profile,
	}
}

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
	case "nginx", "haproxy":
		return r.playGateway(ctx)
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
