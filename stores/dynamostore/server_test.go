package dynamostore

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Each rule is seen to fail in storetest; that of the killed server also with dynalite's tables in memory.
func TestServer(t *testing.T) {
	t.Parallel()
	server := servers.StartDynalite(t, servers.DynaliteOptions{})
	storetest.RunServer(t, storetest.ServerHarness{Place: func(t *testing.T) storetest.Place {
		table := newTable(t, connect(server.URL()))
		return storetest.Place{
			Address: strings.TrimPrefix(server.URL(), "http://"),
			Open: func(t *testing.T, address string) retrysafe.Store {
				return openOn(t, connect("http://"+address), table)
			},
			Restart: server.Restart, Kill: server.Kill, Start: server.Start,
		}
	}})
}
