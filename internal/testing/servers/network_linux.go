package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Network is a private network of hosts, each of which is a Linux network namespace with one interface. All of them are
// connected to a switch, in a namespace of its own, from which Cut unplugs a host.
//
// The namespaces have no names. They end with this process and with the programs that run in them, so that nothing is
// left to be removed. The network of the machine itself is not touched, and cannot be reached from the hosts. It needs
// root, and no more of the machine than the commands ip and nsenter.
type Network struct {
	Hosts []*Host
	hub   *namespace
}

// Host is one host of a Network.
type Host struct {
	network *Network
	inside  *namespace
	port    string // the name of its port of the switch
	ip      string
}

// newNetwork makes a network of that many hosts, up to 200.
func newNetwork(hosts int) (_ *Network, err error) {
	for _, p := range []program{ipCommand, nsenter} {
		if _, err := findProgram(p); err != nil {
			return nil, err
		}
	}
	n := &Network{}
	if n.hub, err = newNamespace(); err != nil {
		return nil, err
	}
	if err := n.hub.ip("link add switch type bridge", "link set switch up"); err != nil {
		return nil, errors.Join(err, n.close())
	}
	for i := range hosts {
		if err := n.add(i + 1); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	return n, nil
}

func (n *Network) add(number int) error {
	inside, err := newNamespace()
	if err != nil {
		return err
	}
	h := &Host{
		network: n, inside: inside,
		port: "port" + strconv.Itoa(number), ip: "10.231.0." + strconv.Itoa(number),
	}
	n.Hosts = append(n.Hosts, h)
	return errors.Join(
		n.hub.ip("link add "+h.port+" type veth peer name eth0 netns "+inside.path(),
			"link set "+h.port+" master switch", "link set "+h.port+" up"),
		inside.ip("link set lo up", "addr add "+h.ip+"/24 dev eth0", "link set eth0 up"),
	)
}

func (n *Network) close() error {
	err := n.hub.close()
	for _, h := range n.Hosts {
		err = errors.Join(err, h.inside.close())
	}
	return err
}

// Cut unplugs the host from the switch. Its packets and those to it are lost, and no connection is told.
func (h *Host) Cut(t testing.TB) { t.Helper(); check(t, h.network.hub.ip("link set "+h.port+" down")) }

// Reconnect connects the host again.
func (h *Host) Reconnect(t testing.TB) {
	t.Helper()
	check(t, h.network.hub.ip("link set "+h.port+" up"))
}

// Mute loses the packets that the host sends to the others. It still gets theirs.
func (h *Host) Mute(t testing.TB) {
	t.Helper()
	check(t, h.inside.ip("route replace blackhole "+halves[0], "route replace blackhole "+halves[1]))
}

// Unmute ends Mute.
func (h *Host) Unmute(t testing.TB) { t.Helper(); check(t, h.inside.ip("route flush type blackhole")) }

// halves are the addresses of the network, as two routes that are narrower than the one of the interface.
var halves = [2]string{"10.231.0.0/25", "10.231.0.128/25"}

// Dial connects from the host to an address of the network. It has the form that clients of servers ask for.
func (h *Host) Dial(network, address string) (net.Conn, error) {
	return h.dial(context.Background(), network, address)
}

func (h *Host) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	// An address in digits is dialed by the thread that asks, and a socket belongs to the namespace of the thread that
	// makes it.
	inside := h.inside.run(func() {
		conn, err = (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, address)
	})
	return conn, errors.Join(err, inside)
}

// within returns the command that runs a program on the host.
func (h *Host) within(args ...string) []string {
	return append([]string{nsenter.lookUp(), "--net=" + h.inside.path(), "--"}, args...)
}

// namespace is a network namespace, and the thread that is in it.
type namespace struct {
	file  *os.File // keeps the namespace
	calls chan func()
}

func newNamespace() (*namespace, error) {
	n := &namespace{calls: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine, since no other code may run in it
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			n.file, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", syscall.Gettid()))
		}
		made <- err
		if err != nil {
			return
		}
		for call := range n.calls {
			call()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("servers: make a network namespace: %w; it needs root, and a container that allows "+
			"CAP_NET_ADMIN and CAP_SYS_ADMIN", err)
	}
	return n, nil
}

// path is where other processes find the namespace while this process runs.
func (n *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// run calls do in the thread of the namespace.
func (n *namespace) run(do func()) error {
	done := make(chan struct{})
	select {
	case n.calls <- func() { defer close(done); do() }:
		<-done
		return nil
	case <-time.After(patience):
		return errors.New("servers: the thread of a network namespace does not answer")
	}
}

// ip runs the command ip in the namespace, once for each of the arguments.
func (n *namespace) ip(lines ...string) error {
	for _, line := range lines {
		args := append([]string{"--net=" + n.path(), "--", ipCommand.lookUp()}, strings.Fields(line)...)
		if out, err := exec.Command(nsenter.lookUp(), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("servers: ip %s: %w: %s", line, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

func (n *namespace) close() error {
	close(n.calls)
	return n.file.Close()
}
