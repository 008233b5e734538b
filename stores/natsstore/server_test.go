package natsstore

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Each rule is seen to fail in storetest.
func TestServer(t *testing.T) {
	t.Parallel()
	server := servers.StartNATS(t, servers.NATSOptions{})
	storetest.RunServer(t, storetest.ServerHarness{Waits: true, Place: func(t *testing.T) storetest.Place {
		bucket := newBucket(t, connect(t, server.URL()), BucketOptions{})
		return storetest.Place{
			Address: strings.TrimPrefix(server.URL(), "nats://"),
			Open: func(t *testing.T, address string) retrysafe.Store {
				return open(t, connect(t, "nats://"+address), Options{Bucket: bucket, Timeout: patience})
			},
			Restart: server.Restart, Kill: server.Kill, Start: server.Start,
		}
	}})
}
