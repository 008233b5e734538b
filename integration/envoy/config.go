package envoy

import (
	"fmt"
	"net"
	"strings"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Config is what a Player uses of a configuration of Envoy.
type Config struct {
	Filter *extproc.ExternalProcessor
	Route  *route.RouteAction
	Buffer int    // the limit of a listener's buffers, in bytes
	Server string // the address of the ext_proc server
	// Service is the address of the upstream.
	Service string
	// LocalReplies: the filter sees the answers of Envoy itself, as before 1.34.
	LocalReplies bool
}

// defaultBuffer is Envoy's limit of the buffers of a connection, in bytes.
const defaultBuffer = 1 << 20

// Parse reads a bootstrap file with one listener, an ext_proc filter before the router, and two clusters. The types of
// Envoy validate it.
func Parse(text string) (*Config, error) {
	var b bootstrap.Bootstrap
	if err := unmarshal(text, &b); err != nil {
		return nil, err
	}
	if err := b.ValidateAll(); err != nil {
		return nil, err
	}
	listener := b.GetStaticResources().GetListeners()[0]
	manager, filter := &hcm.HttpConnectionManager{}, &extproc.ExternalProcessor{}
	if err := listener.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
		return nil, err
	}
	filters := manager.HttpFilters
	if n := len(filters); n != 2 || filters[1].Name != "envoy.filters.http.router" {
		return nil, fmt.Errorf("%d filters, want ext_proc before the router", n)
	}
	if err := filters[0].GetTypedConfig().UnmarshalTo(filter); err != nil {
		return nil, err
	}
	for _, m := range []interface{ ValidateAll() error }{manager, filter} {
		if err := m.ValidateAll(); err != nil {
			return nil, err
		}
	}
	to := manager.GetRouteConfig().VirtualHosts[0].Routes[0].GetRoute()
	c := &Config{Filter: filter, Route: to, Buffer: defaultBuffer}
	if limit := listener.PerConnectionBufferLimitBytes; limit != nil {
		c.Buffer = int(limit.Value)
	}
	addresses := map[string]string{}
	for _, to := range b.StaticResources.Clusters {
		addresses[to.Name] = addressOf(to)
	}
	c.Server = addresses[filter.GetGrpcService().GetEnvoyGrpc().GetClusterName()]
	c.Service = addresses[c.Route.GetCluster()]
	if c.Server == "" || c.Service == "" {
		return nil, fmt.Errorf("a cluster is missing: %v", addresses)
	}
	return c, nil
}

func unmarshal(text string, m proto.Message) error {
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	return protojson.Unmarshal(json, m)
}

func addressOf(c *cluster.Cluster) string {
	a := c.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().Address.GetSocketAddress()
	return net.JoinHostPort(a.Address, fmt.Sprint(a.GetPortValue()))
}

func (c *Config) messageTimeout() time.Duration {
	if t := c.Filter.MessageTimeout; t != nil {
		return t.AsDuration()
	}
	return 200 * time.Millisecond
}

func (c *Config) routeTimeout() time.Duration {
	if t := c.Route.Timeout; t != nil {
		return t.AsDuration()
	}
	return 15 * time.Second
}

// retries reports whether the route's policy repeats a request that has ended so.
func (c *Config) retries(reason string, tries int) bool {
	p := c.Route.RetryPolicy
	if p == nil {
		return false
	}
	most := 1
	if p.NumRetries != nil {
		most = int(p.NumRetries.Value)
	}
	for on := range strings.SplitSeq(p.RetryOn, ",") {
		if strings.TrimSpace(on) == reason || on == "5xx" && reason != "" {
			return tries <= most
		}
	}
	return false
}
