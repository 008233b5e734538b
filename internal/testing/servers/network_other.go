//go:build !linux

package servers

import (
	"context"
	"errors"
	"net"
	"testing"
)

// Network is a private network of hosts. Only Linux has what it is made of.
type Network struct{ Hosts []*Host }

// Host is one host of a Network.
type Host struct{ ip string }

var errNoNamespaces = errors.New("servers: a private network needs the network namespaces of Linux")

func newNetwork(int) (*Network, error) { return nil, errNoNamespaces }

func (n *Network) close() error { return nil }

// Cut unplugs the host from the switch.
func (h *Host) Cut(t testing.TB) { t.Helper(); check(t, errNoNamespaces) }

// Reconnect connects the host again.
func (h *Host) Reconnect(t testing.TB) { t.Helper(); check(t, errNoNamespaces) }

// Mute loses the packets that the host sends to the others.
func (h *Host) Mute(t testing.TB) { t.Helper(); check(t, errNoNamespaces) }

// Unmute ends Mute.
func (h *Host) Unmute(t testing.TB) { t.Helper(); check(t, errNoNamespaces) }

// Dial connects from the host to an address of the network.
func (h *Host) Dial(network, address string) (net.Conn, error) {
	return h.dial(context.Background(), network, address)
}

func (h *Host) dial(context.Context, string, string) (net.Conn, error) { return nil, errNoNamespaces }

func (h *Host) within(args ...string) []string { return args }
