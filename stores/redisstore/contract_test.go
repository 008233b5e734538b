package redisstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestContract(t *testing.T) { onBoth(t, testContract) }

func testContract(t *testing.T, o servers.RedisOptions) {
	o.Settings = shared.Options.Settings
	server := servers.StartRedis(t, o)
	client := connect(t, server.Address())
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openOn(t, client, Options{Index: true}) },
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			return openOn(t, connect(t, server.Address()), s.(*Store).options)
		},
		TooLarge: storekit.MaxContent + 1,
		Walks:    6,
	})
}
