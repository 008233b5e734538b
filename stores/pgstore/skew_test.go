package pgstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The contract, on a server whose clock is an hour behind those of the clients.
func TestContractWithWrongServerClock(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{
		Env:      servers.FakeTime(t, -time.Hour),
		Settings: shared.Options.Settings,
	})
	runContract(t, pg.Database(t), Options{}, 1)
}
