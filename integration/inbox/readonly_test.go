package inbox

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
)

// While the database takes no writes, requests get 503 and are told to retry with the same key, and nothing of them is
// saved; a delivery that has ended cannot be marked. Once it takes writes again, both go on with the connections that
// are there, and each request has run once. Seen to fail on PostgreSQL with READ WRITE in begin.sql, which wrote
// nevertheless: an administrator who has set default_transaction_read_only for a switchover would lose that.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		pg := servers.StartPostgres(t, servers.PostgresOptions{})
		readOnlyMeanwhile(newKitAt(t, outbox.PostgreSQL, "pgx", pg.Database(t)), func(value string) {
			pg.Psql(t, "ALTER SYSTEM SET default_transaction_read_only = "+value+"; SELECT pg_reload_conf()")
		})
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		m := servers.StartMariaDB(t, servers.MariaDBOptions{})
		_, address, _ := strings.Cut(m.Database(t), "@")
		m.SQL(t, "CREATE USER app@'%'; GRANT ALL ON *.* TO app@'%'; REVOKE READ ONLY ADMIN, SUPER ON *.* FROM app@'%'")
		readOnlyMeanwhile(newKitAt(t, outbox.MySQL, "mysql", "app@"+address+"?rejectReadOnly=true"), func(value string) {
			m.SQL(t, "SET GLOBAL read_only = "+value)
		})
	})
}

func readOnlyMeanwhile(k *kit, setReadOnly func(value string)) {
	k.Helper()
	underWay, ending := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(ending) })
	k.handler = func(w http.ResponseWriter, _ *http.Request) {
		if len(k.seen()) == 1 {
			close(underWay)
			<-ending
		}
		w.WriteHeader(http.StatusCreated)
	}
	k.run()
	k.Cleanup(end)
	k.post(`{"id":0}`).want(http.StatusAccepted)
	<-underWay
	setReadOnly("on")
	n, a := 0, answer{}
	k.until("requests are refused", func() bool {
		n++
		a = k.post(fmt.Sprintf(`{"id":%d}`, n))
		return a.Code != http.StatusAccepted
	})
	a.wantCode(http.StatusServiceUnavailable, "store-unavailable")
	if !strings.Contains(a.Body.String(), `"retryable":true`) || a.Header().Get("Retry-After") == "" {
		k.Errorf("got %s", a.Body)
	}
	if saved := k.count(outbox.Pending) + k.count(outbox.Sent); saved != n {
		k.Errorf("%d requests are saved, want the %d that were accepted", saved, n)
	}
	end()
	setReadOnly("off")
	k.until("requests are accepted again", func() bool {
		return k.post(fmt.Sprintf(`{"id":%d}`, n)).Code == http.StatusAccepted
	})
	k.settled(n+1, 0)
	if runs := k.seen(); len(runs) != n+1 {
		k.Errorf("the service has seen %v, want each of %d once", runs, n+1)
	}
}

// A pool whose connections have reached a standby, because its URL does not ask for a server that takes writes, leaves
// them when the primary is back. Seen to fail with discard left out of inTx: requests were refused for ever.
func TestStandbyMeanwhile(t *testing.T) {
	t.Parallel()
	primary := servers.StartPostgres(t, servers.PostgresOptions{})
	at := primary.Database(t)
	standby := primary.StartStandby(t, false)
	hosts := hostOf(t, at) + "," + hostOf(t, standby.URL("postgres"))
	k := newKitAt(t, outbox.PostgreSQL, "pgx", strings.Replace(at, hostOf(t, at), hosts, 1))
	k.run()
	k.post(`{"id":1}`).want(http.StatusAccepted)
	k.settled(1, 0)
	primary.Kill(t)
	k.until("a connection reaches the standby", func() (isStandby bool) {
		err := k.db.QueryRow("SELECT pg_is_in_recovery()").Scan(&isStandby)
		return err == nil && isStandby
	})
	k.post(`{"id":2}`).wantCode(http.StatusServiceUnavailable, "store-unavailable")
	primary.Start(t)
	k.until("requests are accepted again", func() bool { return k.post(`{"id":2}`).Code == http.StatusAccepted })
	k.settled(2, 0)
	if runs := k.seen(); len(runs) != 2 {
		k.Errorf("the service has seen %v, want each once", runs)
	}
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
