package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// NATSCluster is three NATS servers with JetStream, each on a host of its own in a private Network: see Network for
// what that needs.
type NATSCluster struct {
	Nodes   []*NATSNode
	network *Network
}

// NATSNode is one server of a NATSCluster. Cut separates it from the other two; clients that Dial from its host still
// reach it.
type NATSNode struct {
	*Instance
	*Host
}

const (
	natsPort, natsRoutePort, natsHealthPort = "4222", "6222", "8222"
	natsNodes                               = 3
)

// StartNATSCluster starts a cluster for one test and ends it with the test. It takes a few seconds.
func StartNATSCluster(t testing.TB, o NATSOptions) *NATSCluster {
	t.Helper()
	c, err := launchNATSCluster(o)
	check(t, err)
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			if t.Failed() {
				t.Logf("%s: %s", n.name, n.Log())
			}
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func launchNATSCluster(o NATSOptions) (*NATSCluster, error) {
	network, err := newNetwork(natsNodes)
	if err != nil {
		return nil, err
	}
	c := &NATSCluster{network: network}
	for i, h := range network.Hosts {
		n, err := newNATSNode(fmt.Sprintf("nats-%d", i+1), h, network, o)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.Nodes = append(c.Nodes, n)
		if err := n.start(); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, n := range c.Nodes {
		n.ready = n.healthy
		err := poll(ctx, "a member of the cluster", func() (bool, error) { return n.healthy(ctx) == nil, nil })
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w\n%s", err, n.Log()), c.close())
		}
	}
	return c, nil
}

func (c *NATSCluster) close() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(append(errs, c.network.close())...)
}

// URLs returns the URLs of all servers.
func (c *NATSCluster) URLs() string {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}

func newNATSNode(name string, h *Host, network *Network, o NATSOptions) (*NATSNode, error) {
	built, err := buildTool("nats-server", natsMod, natsSum)
	if err != nil {
		return nil, err
	}
	in, err := newInstance(name, "root", "KILL", "") // only root may enter a namespace
	if err != nil {
		return nil, err
	}
	n := &NATSNode{in, h}
	var routes []string
	for _, other := range network.Hosts {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+other.ip+":"+natsRoutePort))
	}
	file := func(name string) string { return filepath.Join(n.folder.path, name) }
	listen := func(port string) string { return fmt.Sprintf("%q", net.JoinHostPort(h.ip, port)) }
	conf := fmt.Sprintf(`server_name: %s
listen: %s
http: %s
cluster { name: test, listen: %s, routes: [%s] }
jetstream { store_dir: %q, sync_interval: %q }
%s
`, name, listen(natsPort), listen(natsHealthPort), listen(natsRoutePort), strings.Join(routes, ", "), file("data"),
		o.syncInterval(), o.Config)
	n.command = h.within(built, "-c", file("nats.conf"))
	n.stop, n.ready = syscall.SIGINT, n.greets
	if err := n.folder.owner.write(file("nats.conf"), conf); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// URL returns the URL of the server in the network of the cluster.
func (n *NATSNode) URL() string { return "nats://" + net.JoinHostPort(n.ip, natsPort) }

// greets returns nil once the server listens.
func (n *NATSNode) greets(ctx context.Context) error {
	conn, err := n.dial(ctx, "tcp", net.JoinHostPort(n.ip, natsPort))
	if err != nil {
		return err
	}
	return conn.Close()
}

// healthy returns nil once the server knows a leader, and has all that the others have.
func (n *NATSNode) healthy(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DialContext: n.dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+net.JoinHostPort(n.ip, natsHealthPort)+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("servers: %s is not healthy: %s", n.name, text)
	}
	return nil
}
