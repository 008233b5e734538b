//go:build unix

package proxycmd

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// A proxy that starts before its store waits for it: alive, not ready. The service manager would otherwise start it so
// often that it gives up.
//
// Seen to fail with startPatience 0 in OpenPatiently: the proxy ends.
func TestAProxyWaitsForItsStore(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	redis := servers.StartRedis(t, servers.RedisOptions{})
	nats := servers.StartNATS(t, servers.NATSOptions{})
	postgres := servers.StartPostgres(t, servers.PostgresOptions{})
	for _, c := range []struct {
		url   string
		store interface {
			Kill(testing.TB)
			Start(testing.TB)
		}
	}{
		{redis.URL(), redis},
		{nats.URL() + "/keys", nats},
		{postgres.Database(t), postgres},
	} {
		if got := clitest.Run(t, "migrate", "up", "--store="+c.url); got.Code != 0 {
			t.Fatal(got.Stderr)
		}
		c.store.Kill(t)
		admin := freeAddress(t)
		p := clitest.Launch(t, "--upstream="+up.URL, "--store="+c.url, "--admin="+admin, "--metrics")
		p.Line("the store cannot be reached; trying again")
		for path, status := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 503} {
			clitest.Want(t, path, statusOf(t, "http://"+admin+path), status)
		}
		c.store.Start(t)
		p.URL = "http://" + p.Line("listening")["address"].(string)
		ready := 0
		for late := time.Now().Add(time.Minute); ready != 200 && time.Now().Before(late); { // a busy store is slow
			ready = statusOf(t, "http://"+admin+"/readyz")
		}
		clitest.Want(t, "ready", ready, 200)
		clitest.Want(t, "status", p.MustPost("k"+c.url[:4], "amount=1").StatusCode, 201)
		p.Signal(syscall.SIGTERM)
		clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	}
}

// A proxy on a server that can lose keys says so when it starts. Seen to fail with logRisks not called, and with the
// settings of appendonly not read by redisstore.
func TestAProxyWarnsOfAStoreThatCanLoseKeys(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t, servers.RedisOptions{Settings: map[string]string{"appendonly": "no"}})
	p := clitest.Launch(t, "--upstream=http://127.0.0.1:1", "--store="+redis.URL())
	warning := p.Line("the store can lose keys")
	clitest.Want(t, "setting", warning["setting"], any("appendonly no"))
	clitest.Want(t, "level", warning["level"], any("WARN"))
	p.Line("listening")
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
}

// What waiting does not cure ends the proxy at once, with what to do.
func TestAStoreThatRefusesEndsTheProxy(t *testing.T) {
	t.Parallel()
	p := clitest.Launch(t, "--upstream=http://127.0.0.1:1", "--store="+clitest.Postgres.Get(t).Database(t))
	clitest.Want(t, "exit code", p.Exit(), cli.ExitFailed)
	clitest.WantText(t, "log", p.Log(), "migrate up")
}

// freeAddress returns an address that no other process takes meanwhile.
func freeAddress(t *testing.T) string { return fmt.Sprint("127.0.0.1:", servers.ReservePort(t)) }

func statusOf(t *testing.T, url string) int {
	res, err := http.Get(url)
	clitest.Must(t, err)
	res.Body.Close()
	return res.StatusCode
}
