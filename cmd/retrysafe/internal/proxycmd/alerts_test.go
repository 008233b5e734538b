//go:build unix

package proxycmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Each alert fires once the real proxy, or a program with the real observers, is in the state that it is about, and is
// quiet before, and again after the state has been repaired as docs/alerts.md says.
//
// Seen to fail for each alert: with each metric of its rule under another name (but the client's waits, which only change a
// value; the tests beside the rules have them), with 30 days in "for", and with an expression that is always true. For
// RetrysafeSweepBehind also without "last_over_time", and for RetrysafeZombies with another name for its counter.
func TestAlertsFireAndClear(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	t.Run("state", func(t *testing.T) {
		for name, test := range map[string]func(tl *timeline){
			"unknown outcomes": unknownOutcomes, "a store that is down": storeDown, "lost leases": lostLeases,
			"clients": badClients, "waits": waitsInVain, "a reload": refusedReload, "slow claims": slowClaims,
			"no completion": noCompletion, "no sweeps": noSweeps, "a program": badProgram,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tl := newTimeline(t)
				test(tl)
				tl.run()
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(seen, tl.seen)
			})
		}
	})
	for _, name := range alertNames(t) {
		if !seen[name+" fires"] || !seen[name+" clears"] {
			t.Errorf("%s was not brought about and repaired", name)
		}
	}
}

// startMeasured starts a proxy with metrics on a store. config is its file. A proxy reads its store at the first scrape,
// and then every 15 seconds: where a reading must be new, the tests scrape another proxy, as after a deployment.
func startMeasured(t *testing.T, up *clitest.API, store, config string, args ...string) *clitest.Running {
	t.Helper()
	return clitest.StartProxy(t, append(args, "--upstream="+up.URL, "--store="+store, "--admin=127.0.0.1:0", "--metrics",
		"--config="+clitest.WriteFile(t, config))...)
}

// end ends a proxy as a deployment does.
func end(p *clitest.Running) {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	clitest.Want(p.T, "exit code", p.Exit(), cli.ExitOK)
}

const shortLease = "defaults: {lease: 1s}\n"

// The upstream breaks off, the client retries, and the process is killed with an operation in flight.
func unknownOutcomes(tl *timeline) {
	up, url := clitest.NewAPI(tl.T), clitest.Migrated(tl.T)
	const unknown, refused, old, down = "RetrysafeOutcomesUnknown", "RetrysafeUnknownRefused", "RetrysafePendingTooLong",
		"RetrysafeDown"
	a := startMeasured(tl.T, up, url, shortLease)
	tl.pass(10, a)
	tl.quiet(unknown, refused, old, down)
	clitest.Want(tl.T, "cut", a.MustPost("cut", "amount=1", "X-Cut", "1").StatusCode, 502)
	clitest.Want(tl.T, "retry", a.MustPost("cut", "amount=1").StatusCode, 500)
	tl.until(a, "the retry is counted", is(`retrysafe_requests_total{outcome="abandoned"}`, 1))
	tl.pass(2, a)
	tl.fires(refused)
	go a.Post("killed", "amount=1", "X-Hold", "1") // dies with the proxy
	clitest.WaitFor(tl.T, up.Began, "the operation to run")
	a.Signal(syscall.SIGKILL)
	a.Exit()
	tl.pass(3, a)
	tl.fires(down)
	close(up.GoOn)
	psql := func(text string) { clitest.Postgres.Get(tl.T).PsqlAt(tl.T, url, text) }
	psql("UPDATE retrysafe.claims SET claimed_at = claimed_at - 3600000000, ends_at = ends_at - 3600000000")
	b := startMeasured(tl.T, up, url, shortLease)
	tl.until(b, "two outcomes are unknown", is(`retrysafe_store_records{state="abandoned"}`, 2))
	tl.pass(20, b)
	tl.fires(unknown, old)
	tl.quiet(down, refused)

	list := clitest.Run(tl.T, "keys", "list", "--store="+url, "--json")
	for line := range strings.Lines(list.Stdout) {
		var key struct{ Digest string }
		clitest.Must(tl.T, json.Unmarshal([]byte(line), &key))
		got := clitest.Run(tl.T, "keys", "resolve", key.Digest, "--store="+url, "--fail", "--reason=a test")
		clitest.Want(tl.T, "resolve: "+got.Stderr, got.Code, 0)
	}
	end(b)
	c := startMeasured(tl.T, up, url, shortLease)
	tl.until(c, "no outcome is unknown", is(`retrysafe_store_records{state="abandoned"}`, 0))
	tl.pass(2, c)
	tl.quiet(unknown, old)
}

// The database is killed while an operation runs.
func storeDown(tl *timeline) {
	pg, up := servers.StartPostgres(tl, servers.PostgresOptions{}), clitest.NewAPI(tl.T)
	url := pg.Database(tl)
	clitest.Want(tl.T, "migrate", clitest.Run(tl.T, "migrate", "up", "--store="+url).Code, 0)
	const config = "routes:\n  POST /payments: {}\n  POST /open: {store_error: open}\n"
	before, p := startMeasured(tl.T, up, url, config), startMeasured(tl.T, up, url, config)
	const fails, unread, unsaved, open = "RetrysafeStoreFails", "RetrysafeStoreUnread", "RetrysafeCompletionsFail",
		"RetrysafeUnprotected"
	tl.pass(10, before)
	tl.quiet(fails, unread, unsaved, open)
	end(before)
	answered := make(chan clitest.Reply, 1)
	go p.Hold(answered)
	clitest.WaitFor(tl.T, up.Began, "the operation to run")
	pg.Kill(tl)
	tl.until(p, "the store is down for metrics", is("retrysafe_store_up", 0))
	tl.pass(1, p)
	close(up.GoOn)
	clitest.Want(tl.T, "while the store is down", p.MustPost("other", "amount=1").StatusCode, 503)
	clitest.Want(tl.T, "without protection", postTo(p, "/open").StatusCode, 201)
	tl.until(p, "the result waits", is("retrysafe_attempts_unsaved", 1))
	tl.until(p, "the request without protection is counted", is(`retrysafe_requests_total{outcome="unprotected"}`, 1))
	tl.pass(4, p)
	tl.fires(fails, unsaved, open)
	tl.pass(10, p)
	tl.fires(unread, unsaved)
	pg.Start(tl)
	tl.until(p, "the result is saved", is("retrysafe_attempts_unsaved", 0))
	clitest.WaitFor(tl.T, answered, "the answer")
	after := startMeasured(tl.T, up, url, config)
	tl.until(after, "the store is read", is("retrysafe_store_up", 1))
	tl.pass(1, p, after)
	tl.quiet(unread, unsaved)
	tl.pass(15, p, after)
	tl.quiet(fails, open)
}

// Keys are taken over while their operations run, and while a result cannot be saved.
func lostLeases(tl *timeline) {
	up, url := clitest.NewAPI(tl.T), clitest.Migrated(tl.T)
	psql := func(text string) { clitest.Postgres.Get(tl.T).PsqlAt(tl.T, url, text) }
	p := startMeasured(tl.T, up, url, "defaults: {lease: 3s}\n")
	const zombies, lost = "RetrysafeZombies", "RetrysafeCompletionsLost"
	tl.pass(10, p)
	tl.quiet(zombies, lost)
	const takeOver = "UPDATE retrysafe.claims SET owner = gen_random_uuid(), fence = fence + 1 WHERE state = 1"
	answered := make(chan clitest.Reply, 1)
	go p.Hold(answered)
	clitest.WaitFor(tl.T, up.Began, "the operation to run")
	psql(takeOver)
	tl.until(p, "the loss is noticed", is("retrysafe_zombies_total", 1))
	close(up.GoOn)
	clitest.WaitFor(tl.T, answered, "the answer")
	psql("CREATE FUNCTION retrysafe.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'; " +
		"CREATE TRIGGER refuse BEFORE INSERT ON retrysafe.results FOR EACH ROW EXECUTE FUNCTION retrysafe.refuse()")
	go p.Post("unsaved", "amount=1")
	tl.until(p, "the result waits", is("retrysafe_attempts_unsaved", 1))
	psql(takeOver)
	tl.until(p, "the result is given up", is(`retrysafe_saves_total{outcome="given_up"}`, 1))
	tl.pass(2, p)
	tl.fires(zombies, lost)
	tl.pass(15, p)
	tl.quiet(zombies, lost)
}

// A client uses keys for other requests, and others retry what is done.
func badClients(tl *timeline) {
	p := startMeasured(tl.T, clitest.NewAPI(tl.T), "memory:", "{}\n")
	const mismatches, spike = "RetrysafeMismatches", "RetrysafeDedupSpike"
	id := 0
	post := func(n int, body func(i int) string, repeat bool) {
		for i := range n {
			if !repeat {
				id++
			}
			p.MustPost(fmt.Sprint("key-", id), body(i))
		}
	}
	same := func(int) string { return "amount=1" }
	for range 24 {
		post(5, same, false)
		tl.pass(60, p)
	}
	tl.quiet(mismatches, spike)
	post(1, same, false)
	post(20, func(i int) string { return fmt.Sprint("amount=", i+2) }, true)
	tl.pass(2, p)
	tl.fires(mismatches)
	tl.quiet(spike)
	for range 4 {
		post(70, same, false)
		post(70, same, true)
		tl.pass(2, p)
	}
	tl.fires(spike)
	tl.pass(20, p)
	tl.quiet(spike, mismatches)
}

// One of two requests waits in vain for an attempt that hangs.
func waitsInVain(tl *timeline) {
	up := clitest.NewAPI(tl.T)
	p := startMeasured(tl.T, up, "memory:", "defaults: {in_flight: wait:50ms}\n")
	tl.pass(10, p)
	answered := make(chan clitest.Reply, 1)
	go func() { answered <- postTo(p, "/reports", "X-Hold", "1") }()
	clitest.WaitFor(tl.T, up.Began, "the operation to run")
	tl.quiet("RetrysafeWaitsInVain")
	for i := range 5 {
		clitest.Want(tl.T, "a retry", postTo(p, "/reports").StatusCode, 409)
		clitest.Want(tl.T, "another request", p.MustPost(fmt.Sprint(i), "amount=1").StatusCode, 201)
		tl.pass(3, p)
	}
	tl.fires("RetrysafeWaitsInVain")
	close(up.GoOn)
	clitest.WaitFor(tl.T, answered, "the answer")
	for i := range 3 {
		clitest.Want(tl.T, "another request", p.MustPost(fmt.Sprint("later-", i), "amount=1").StatusCode, 201)
		tl.pass(3, p)
	}
	tl.quiet("RetrysafeWaitsInVain")
}

// A file with a fault is reloaded, and then one without.
func refusedReload(tl *timeline) {
	text := "upstream: " + clitest.NewAPI(tl.T).URL + "\n"
	p := startReloadable(tl.T, text, "--store=memory:")
	tl.pass(10, p.Running)
	tl.quiet("RetrysafeReloadRefused")
	p.write("lisen: a\n")
	p.Signal(syscall.SIGHUP)
	p.Line(notReloaded)
	tl.pass(7, p.Running)
	tl.fires("RetrysafeReloadRefused")
	p.reload(text)
	tl.pass(1, p.Running)
	tl.quiet("RetrysafeReloadRefused")
}

// A long transaction locks the records.
func slowClaims(tl *timeline) {
	up, url := clitest.NewAPI(tl.T), clitest.Migrated(tl.T)
	p := startMeasured(tl.T, up, url, "{}\n")
	pg := clitest.Postgres.Get(tl.T)
	tl.pass(10, p)
	tl.quiet("RetrysafeClaimsSlow")
	for i := range 5 {
		// The claim comes while the lock is held: both are seen in the list of locks.
		locked := make(chan string, 1)
		go func() {
			locked <- pg.PsqlAt(tl.T, url, `BEGIN; LOCK TABLE retrysafe.claims;
				DO $$ BEGIN
					WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'retrysafe.claims'::regclass) LOOP
						PERFORM pg_sleep(0.01);
					END LOOP;
					PERFORM pg_sleep(0.6);
				END $$; COMMIT`)
		}()
		for waited := "0"; waited == "0"; {
			waited = pg.PsqlAt(tl.T, url, "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock' "+
				"AND relation = 'retrysafe.claims'::regclass")
		}
		clitest.Want(tl.T, "a slow request", p.MustPost(fmt.Sprint(i), "amount=1").StatusCode, 201)
		clitest.WaitFor(tl.T, locked, "the end of the transaction")
		tl.pass(3, p)
	}
	tl.fires("RetrysafeClaimsSlow")
	tl.pass(10, p)
	tl.quiet("RetrysafeClaimsSlow")
}

// A service answers without having completed its key.
func noCompletion(tl *timeline) {
	up, url := clitest.NewAPI(tl.T), clitest.Migrated(tl.T)
	p := startMeasured(tl.T, up, url, "routes:\n  POST /payments: {complete: upstream}\n")
	tl.pass(10, p)
	tl.quiet("RetrysafeCompletionMissing")
	clitest.Want(tl.T, "status", p.MustPost("k", "amount=1").StatusCode, 201)
	tl.until(p, "it is counted", is("retrysafe_completions_missing_total", 1))
	tl.pass(2, p)
	tl.fires("RetrysafeCompletionMissing")
	tl.pass(15, p)
	tl.quiet("RetrysafeCompletionMissing")
}

// The database refuses to delete, and 30,000 records have expired; the rate of new ones is one in ten minutes. A process sweeps once a minute: the second one begins
// with a sweep.
func noSweeps(tl *timeline) {
	up, url := clitest.NewAPI(tl.T), clitest.Migrated(tl.T)
	psql := func(text string) { clitest.Postgres.Get(tl.T).PsqlAt(tl.T, url, text) }
	a := startMeasured(tl.T, up, url, "{}\n")
	const behind, grows = "RetrysafeSweepBehind", "RetrysafeStoreGrows"
	clitest.Want(tl.T, "status", a.MustPost("first", "amount=1").StatusCode, 201)
	tl.until(a, "a sweep has ended", func(s scrape) bool { return s.sum("retrysafe_sweep_last_success_seconds") > 0 })
	tl.pass(10, a)
	tl.quiet(behind, grows)
	psql(`CREATE FUNCTION retrysafe.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
		CREATE TRIGGER refuse BEFORE DELETE ON retrysafe.claims FOR EACH ROW EXECUTE FUNCTION retrysafe.refuse();
		UPDATE retrysafe.claims SET claimed_at = claimed_at - 600000000;
		INSERT INTO retrysafe.claims SELECT gen_random_uuid(), gen_random_uuid(), n, n, t.day, t.day, 3600000000, 3600000000, 0,
			(t.day + 86400000000) / 60000000, 1, 0, 200, 3, false, false, false, '', '', ''
		FROM generate_series(1::bigint, 30000) n, (SELECT retrysafe.clock() - 86400000000) t (day)`)
	b := startMeasured(tl.T, up, url, "{}\n")
	b.MustPost("first", "amount=1")
	tl.until(b, "a sweep has failed, and the records are counted", func(s scrape) bool {
		return s.series[`retrysafe_sweep_duration_seconds_count{outcome="failed"}`] > 0 &&
			s.series[`retrysafe_store_records{state="succeeded"}`] > 30_000
	})
	for range 9 {
		b.MustPost("first", "amount=1")
		tl.pass(3, a, b)
	}
	tl.fires(behind)
	end(a)
	for range 3 {
		b.MustPost("first", "amount=1")
		tl.pass(3, b)
	}
	tl.fires(behind) // which the end of the last process that has swept does not change
	tl.pass(430, b)
	tl.fires(grows)
	psql("DROP TRIGGER refuse ON retrysafe.claims")
	clitest.Want(tl.T, "sweep", clitest.Run(tl.T, "sweep", "--store="+url).Code, 0)
	end(b)
	c := startMeasured(tl.T, up, url, "{}\n")
	for range 3 {
		c.MustPost("first", "amount=1")
		tl.until(c, "a sweep has ended", func(s scrape) bool { return s.sum("retrysafe_sweep_last_success_seconds") > 0 })
		tl.pass(3, c)
	}
	tl.quiet(behind, grows)
}
