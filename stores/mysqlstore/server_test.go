package mysqlstore

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with lockWaitTimeout taken out of remedy, and with look.sql selecting FALSE for abandoned. What else
// breaks a rule is in storetest.
func TestServer(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.MariaDBOptions{})
	storetest.RunServer(t, storetest.ServerHarness{Doubts: true, Place: func(t *testing.T) storetest.Place {
		dsn := server.Database(t)
		owner := openAt(t, dsn, Options{})
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Place{
			Address: c.Addr,
			Open: func(t *testing.T, address string) retrysafe.Store {
				at := withParams(t, dsn, func(c *mysql.Config) { c.Addr = address })
				return openOn(t, openPool(t, at), Options{})
			},
			Restart: server.Restart, Kill: server.Kill, Start: server.Start,
			Lock:       func(t *testing.T, k retrysafe.Key) (unlock func()) { return lockRow(t, owner, k) },
			Waiting:    func(t *testing.T) []string { return waiting(t, owner) },
			WaitsAgain: true,
		}
	}})
	readOnly(t, server, openAt(t, server.Database(t), Options{}))
}
