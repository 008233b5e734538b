package pgstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The contract, on a server whose clock is an hour behind those of the clients, in a schema of another name.
func TestContractWithWrongServerClock(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{
		Env:      servers.FakeTime(t, -time.Hour),
		Settings: shared.Options.Settings,
	})
	runContract(t, pg.Database(t), Options{Schema: "other_name"})
}
