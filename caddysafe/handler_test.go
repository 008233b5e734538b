package caddysafe_test

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// Seen to fail with a Handler.ServeHTTP that calls next itself.
func TestARetryGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	c := startCaddy(t, "store "+filepath.Join(t.TempDir(), "keys.db"), serve(t, new(shop)))
	c.charge("a", "1", "201 charge 1")
	c.charge("a", "1", "201 charge 1")
	c.charge("b", "1", "201 charge 2")
	c.charge("a", "2", "422 key-reused")
	c.charge("", "1", "201 charge 3")
	c.charge("", "1", "201 charge 4")
}

// A new configuration uses the store of the old one, whose file cannot be opened twice, and its own options.
//
// Seen to fail with open called each time in openShared, with a Handler.Cleanup that does not give the store back, and
// without oneName: Caddy refused the configuration with the link, because the file was in use.
func TestAReloadKeepsTheStore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.db")
	url := serve(t, new(shop))
	c := startCaddy(t, "store "+file, url)
	c.charge("a", "1", "201 charge 1")
	c.reload("store "+file+"\nrequired", url)
	c.charge("a", "1", "201 charge 1")
	c.charge("", "1", "400 key-missing")
	if err := os.Symlink(file, file+".link"); err != nil {
		t.Fatal(err)
	}
	c.reload("store "+file+".link", url)
	c.charge("a", "1", "201 charge 1")
	c.reload("store "+file+".other", url)
	c.charge("a", "1", "201 charge 2")
	other := startCaddy(t, "store "+file, url)
	other.charge("a", "1", "201 charge 1")
}

// A request that a reload with another store finds running keeps its store, and so does its answer. Caddy does not wait
// for it.
//
// Seen to fail with "go" taken out of Handler.Cleanup: after shutdownPatience the store was closed, and the answer was
// not saved.
func TestAReloadLeavesRunningRequestsTheirStore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.db")
	charges, began, mayEnd := new(shop), make(chan struct{}), make(chan struct{})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == `"slow"` {
			close(began)
			<-mayEnd
		}
		charges.ServeHTTP(w, r)
	}))
	c := startCaddy(t, "store "+file, url)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c.charge("slow", "1", "201 charge 1")
	}()
	<-began
	c.reload("store "+file+".other", url)
	close(mayEnd)
	<-answered
	c.reload("store "+file, url)
	c.charge("slow", "1", "201 charge 1")
}

// An answer that was stored is there after a crash, and another Caddy with the same server gives it too.
func TestCaddysShareAStore(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{}).Database(t)
	pool, err := pgxpool.New(t.Context(), pg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]string{
		"PostgreSQL": pg,
		"Redis":      "redis://" + servers.StartRedis(t, servers.RedisOptions{}).Address(),
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, new(shop))
			one, two := startCaddy(t, "store "+store, url), startCaddy(t, "store "+store, url)
			one.charge("a", "1", "201 charge 1")
			two.charge("a", "1", "201 charge 1")
			one.Kill(t)
			one.Start(t)
			one.charge("a", "1", "201 charge 1")
		})
	}
}

// Seen to fail with logRisks taken out of Handler.Provision.
func TestASettingThatCanLoseKeysIsLogged(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t, servers.RedisOptions{Settings: map[string]string{"appendfsync": "everysec"}})
	c := startCaddy(t, "store redis://"+redis.Address(), serve(t, new(shop)))
	if log := c.Service.Log(); !strings.Contains(log, "appendfsync everysec") {
		t.Errorf("no warning: %s", log)
	}
}

// A service that cannot be reached has done nothing, and one that hangs up may have done anything.
//
// Seen to fail with httpsafe.Release, and with httpsafe.Ambiguous, taken out of serveNext.
func TestErrorsOfTheProxyDecideAboutTheKey(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	// ietf-strict stores every answer, if the handler does not say otherwise.
	c := startCaddy(t, "profile ietf-strict\nstore "+filepath.Join(t.TempDir(), "keys.db"), address)
	c.charge("a", "1", "503 Service Unavailable")
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	charges := new(shop)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != `"hang up"` {
			charges.ServeHTTP(w, r)
			return
		}
		charges.charges.Add(1)
		panic(http.ErrAbortHandler)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	c.charge("a", "1", "201 charge 1")
	c.charge("hang up", "1", "502 Bad Gateway")
	c.charge("hang up", "1", "500 outcome-unknown")
	c.charge("b", "1", "201 charge 3")
}

// With "lb_retry_match" Caddy's proxy tries again after something was sent. If it then reaches no service, one may have
// done the work all the same.
//
// Seen to fail without call.sent: the key was free; and with "fastcgi" without ConnectDone in call.traced.
func TestARequestThatWasSentIsNotReleased(t *testing.T) {
	t.Parallel()
	transports := map[string]func(*bufio.Reader) bool{"http": isPostOverHTTP, "fastcgi": isPostOverFastCGI}
	for transport, isPost := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			charges := 0
			done := make(chan struct{})
			go func() { // does the work, dies, and is not there any more
				defer close(done)
				for charges == 0 {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if isPost(bufio.NewReader(conn)) {
						charges++
						l.Close()
					} // otherwise StartService asks whether Caddy answers
					conn.Close()
				}
			}()
			upstream := l.Addr().String() + " {\ntransport " + transport +
				"\nlb_try_duration 1s\nlb_retry_match {\nmethod POST\n}\n}"
			c := startCaddy(t, "store "+filepath.Join(t.TempDir(), "keys.db"), upstream)
			c.charge("a", "1", "502 Bad Gateway")
			<-done
			if charges != 1 {
				t.Errorf("%d charges", charges)
			}
			c.charge("a", "1", "500 outcome-unknown")
		})
	}
}

func isPostOverHTTP(r *bufio.Reader) bool {
	request, err := http.ReadRequest(r)
	return err == nil && request.Method == http.MethodPost
}

// isPostOverFastCGI reads until the parameters name the method.
func isPostOverFastCGI(r *bufio.Reader) bool {
	for read := ""; ; {
		c, err := r.ReadByte()
		read += string(rune(c))
		if _, method, named := strings.Cut(read, "REQUEST_METHOD"); err != nil || named && len(method) == len("POST") {
			return method == http.MethodPost
		}
	}
}

// Without a key an error is Caddy's, and handle_errors sees it.
func TestErrorsWithoutAKeyAreCaddys(t *testing.T) {
	t.Parallel()
	c := startCaddy(t, "store "+filepath.Join(t.TempDir(), "keys.db"), freeAddress(t)+"\nhandle_errors {\nrespond handled 599\n}")
	c.charge("", "1", "599 handled")
}

func TestTheScopeNamesCallers(t *testing.T) {
	t.Parallel()
	file, url := filepath.Join(t.TempDir(), "keys.db"), serve(t, new(shop))
	c := startCaddy(t, "store "+file+"\nscope header:X-Tenant", url)
	c.charge("a", "1", "401 scope-unresolved")
	c.reload("store "+file+"\nscope none", url)
	c.charge("a", "1", "201 charge 1")
}
