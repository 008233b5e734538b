package pgstore

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// While transactions are read-only by default, claims and completions are refused, and go on after that. A pool whose
// connections have reached a standby, because its URL does not ask for a server that takes writes, leaves them when the
// primary is back, and the store does so within a call. Seen to fail with Close left out of send (for ever), and with
// readOnlyTransaction left out of faultOf (the first calls).
func TestReadOnlyMeanwhile(t *testing.T) {
	t.Parallel()
	primary := servers.StartPostgres(t, servers.PostgresOptions{})
	at := primary.Database(t)
	standby := primary.StartStandby(t, false)
	hosts := hostOf(t, at) + "," + hostOf(t, standby.URL("postgres"))
	s := openAt(t, strings.Replace(at, hostOf(t, at), hosts, 1), Options{})
	l := acquire(t, s, "k")
	refused := func() bool {
		_, err := s.Claim(t.Context(), params(retrysafe.NewOwner().String())) // a known key would only be read
		return err != nil && strings.Contains(err.Error(), "target_session_attrs=read-write")
	}

	primary.Psql(t, "ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()")
	eventually(t, "claims are refused", refused)
	if err := complete(s, l); err == nil {
		t.Error("a completion was written")
	}
	primary.Psql(t, "ALTER SYSTEM RESET default_transaction_read_only; SELECT pg_reload_conf()")
	eventually(t, "the completion is written", func() bool { return complete(s, l) == nil })

	primary.Kill(t)
	eventually(t, "claims reach the standby", refused)
	var idle []*pgxpool.Conn
	for range 3 { // which are there when the primary is back
		conn, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		conn.Release()
	}
	primary.Start(t)
	acquire(t, s, "after it")
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
