package redisstore

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with SPUBLISH taken out of complete.lua, with doubted left unset, and with again returning false. What
// else breaks a rule is in storetest.
func TestServer(t *testing.T) { onBoth(t, testServer) }

func testServer(t *testing.T, o servers.RedisOptions) {
	server := servers.StartRedis(t, o)
	storetest.RunServer(t, storetest.ServerHarness{
		Waits: true, Doubts: true, WakesAtOnce: true,
		Place: func(*testing.T) storetest.Place {
			prefix := retrysafe.NewOwner().String() + ":"
			return storetest.Place{
				Address: server.Address(),
				Open: func(t *testing.T, address string) retrysafe.Store {
					return openOn(t, connect(t, address), Options{Prefix: prefix, Index: true})
				},
				Restart: server.Restart, Kill: server.Kill, Start: server.Start,
			}
		},
	})
}
