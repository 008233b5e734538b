//go:build unix

package proxycmd

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Whether the API breaks off or the proxy dies: the outcome is unknown, the metric that the alert looks at counts it,
// and the log says what to do.
//
// Seen to fail with the answer to a broken connection kept as a failure, without a line when a request is forwarded,
// with the records not counted at the start, and with the advice left out of each line.
func TestUnknownOutcomesOfBothKinds(t *testing.T) {
	t.Parallel()
	const page = "docs/outcome-unknown.md"
	up := clitest.NewAPI(t)
	args := []string{
		"--upstream=" + up.URL, "--store=" + t.TempDir() + "/keys.db", "--admin=127.0.0.1:0", "--metrics",
		"--config=" + clitest.WriteFile(t, "defaults: {lease: 1s}\n"),
	}
	p := clitest.StartProxy(t, args...)
	cut := p.MustPost("cut", "amount=1", "X-Cut", "1")
	clitest.Want(t, "status of a broken connection", cut.StatusCode, 502)
	trouble := p.Line("trouble")
	clitest.Want(t, "what", trouble["what"], any("work_unknown"))
	clitest.WantText(t, "advice", trouble["do"].(string), page)
	clitest.WantText(t, "the answer's body", cut.Text, `"executed":"unknown"`, trouble["key"].(string))
	request := p.Line("request")
	clitest.Want(t, "level", request["level"], any("WARN"))
	clitest.WantText(t, "advice", request["do"].(string), page)
	again := p.MustPost("cut", "amount=1")
	clitest.Want(t, "status of a retry", again.StatusCode, 500)
	scrapeOf(p).want(t, map[string]float64{
		`retrysafe_attempt_duration_seconds_count{outcome="unknown"}`: 1,
		`retrysafe_requests_total{outcome="abandoned"}`:               1,
		`retrysafe_store_records{state="abandoned"}`:                  1,
	})

	go p.Post("killed", "amount=1", "X-Hold", "1") // dies with the proxy
	clitest.WaitFor(t, up.Began, "the operation to run")
	begun := p.Line("forwarded")
	clitest.Want(t, "method of what was forwarded", begun["method"], any("POST"))
	clitest.Want(t, "path of what was forwarded", begun["path"], any("/payments"))
	p.Signal(syscall.SIGKILL)
	p.Exit()
	close(up.GoOn)
	p = clitest.StartProxy(t, args...)
	left := p.Logged("unfinished keys")
	clitest.Want(t, "keys left behind", left["outcome_unknown"].(float64)+left["in_flight"].(float64), 2)
	clitest.WantText(t, "advice", left["do"].(string), page)
	clitest.Want(t, "status after the kill", p.MustPost("killed", "amount=1", "X-Hold", "1").StatusCode, 500)
	refused := p.Line("request")
	clitest.Want(t, "what", refused["what"], any("abandoned_refused"))
	clitest.Want(t, "path", refused["path"], any("/payments"))
	clitest.Want(t, "key of what was forwarded before the kill", begun["key"], refused["key"])
	clitest.WantText(t, "advice", refused["do"].(string), page)
	scrapeOf(p).want(t, map[string]float64{`retrysafe_store_records{state="abandoned"}`: 2})
	clitest.Want(t, "asked", up.Asked.Load(), 2)
}

// What a service has not committed runs again by itself: neither the metric of unknown outcomes nor the log counts it.
//
// Seen to fail with UnknownFunc left out of metrics.measure, and with stats.Abandoned logged as outcome_unknown.
func TestUncommittedKeysAreNoUnknownOutcomes(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/keys.db"
	s, err := sqlitestore.Open(file, sqlitestore.Options{})
	clitest.Must(t, err)
	for id, made := range map[string]retrysafe.Fingerprint{
		"1": "raw2@complete-upstream:00", "2": "raw2@v7-complete-upstream:00", "3": "raw2:00",
	} {
		c, err := s.Claim(t.Context(), retrysafe.ClaimParams{
			Key: retrysafe.Key{ID: id}, Fingerprint: made, Owner: retrysafe.NewOwner(), Lease: time.Hour,
			Keep: retrysafe.Retention{}.WithDefaults(),
		})
		clitest.Must(t, err)
		clitest.Must(t, s.Extend(t.Context(), c.Lease, 0))
	}
	clitest.Must(t, s.Close())
	p := clitest.StartProxy(t, "--upstream="+clitest.NewAPI(t).URL, "--store="+file, "--admin=127.0.0.1:0", "--metrics")
	left := p.Logged("unfinished keys")
	clitest.Want(t, "outcome_unknown", left["outcome_unknown"], any(1.0))
	clitest.Want(t, "uncommitted", left["uncommitted"], any(2.0))
	scrapeOf(p).want(t, map[string]float64{
		`retrysafe_store_records{state="abandoned"}`:   1,
		`retrysafe_store_records{state="uncommitted"}`: 2,
	})
}

// A request whose answer was lost is sent again with the upstream_key that the API got at first, and with no other one.
// Under another secret its outcome stays unknown until the first secret is back.
//
// Seen to fail with secretName taken out of version in package proxy: it was sent again under the second secret; and
// with the secret taken out of Config.Guard.
func TestAnotherSecretOfTheUpstreamKey(t *testing.T) {
	t.Parallel()
	up, store := clitest.NewAPI(t), t.TempDir()+"/keys.db"
	first, second := clitest.WriteFile(t, "the first of two secrets\n"), clitest.WriteFile(t, "the second of two secrets\n")
	for _, c := range []struct {
		secret, cut string
		status      int
		asked       int64
	}{{first, "1", 502, 1}, {second, "", 500, 1}, {first, "", 201, 2}, {second, "", 201, 2}} {
		p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+store, "--config="+clitest.WriteFile(t,
			"upstream_key_secret: {file: "+c.secret+"}\ndefaults: {abandoned: rerun, upstream_key: X-Key}\n"))
		got := p.MustPost("k", "amount=1", "X-Cut", c.cut)
		clitest.Want(t, "status", got.StatusCode, c.status)
		clitest.Want(t, "unknown", strings.Contains(got.Text, "outcome-unknown"), c.status == 500)
		clitest.Want(t, "asked", up.Asked.Load(), c.asked)
		p.Signal(syscall.SIGTERM)
		clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	}
}

// The keys that a dead process left are counted while requests come, and what those claim is not counted. A store where
// everything has ended has nothing to warn of.
//
// Seen to fail with next left at 0 in unfinished.
func TestUnfinishedKeysAreCountedMeanwhile(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	claim := func(id string) retrysafe.Lease {
		t.Helper()
		c, err := s.Claim(t.Context(), retrysafe.ClaimParams{
			Key: retrysafe.Key{ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Hour, Keep: retrysafe.Retention{}.WithDefaults(),
		})
		clitest.Must(t, err)
		clitest.Want(t, "verdict", c.Verdict, retrysafe.Acquired)
		return c.Lease
	}
	logged := func(id string) string {
		t.Helper()
		var out strings.Builder
		count := unfinished(t.Context(), newLogger("json", &out), s, store.Ref{Path: "keys.db"})
		claim(id)
		count()
		return out.String()
	}
	clitest.Must(t, s.Complete(t.Context(), claim("ended"), retrysafe.Result{}, retrysafe.Retention{}.WithDefaults()))
	clitest.Want(t, "log", logged("new"), "")
	clitest.WantText(t, "log", logged("newer"), `"level":"WARN"`, `"outcome_unknown":0`, `"uncommitted":0`, `"in_flight":1`)
}

// A service that answers without having completed its key is named by the key's digest, with what to do.
//
// Seen to fail with CompletionMissing taken out of each switch of logTrouble.
func TestAMissingCompletionIsLogged(t *testing.T) {
	var out strings.Builder
	key := retrysafe.Key{Scope: "alice", ID: "secret-key"}
	logTrouble(newLogger("json", &out), slog.String("do", "resolve it"), config.Dashboard{}.PageOf).Observe(t.Context(), retrysafe.Event{
		Kind: retrysafe.CompletionMissing, Key: key, Attempt: 2, Err: errors.New("not completed"),
	})
	clitest.WantText(t, "log", out.String(), `"level":"WARN"`, `"what":"completion_missing"`, `"key":"`+key.String()+`"`,
		`"attempt":2`, `"error":"not completed"`, "retrysafe.complete", exactlyOncePage)
}

// So is one that has completed its key and answers with an error. Seen to fail with AnswerDiscarded taken out of each
// switch of logTrouble.
func TestADiscardedAnswerIsLogged(t *testing.T) {
	var out strings.Builder
	key := retrysafe.Key{Scope: "alice", ID: "secret-key"}
	logTrouble(newLogger("json", &out), slog.String("do", "resolve it"), config.Dashboard{}.PageOf).Observe(t.Context(), retrysafe.Event{
		Kind: retrysafe.AnswerDiscarded, Key: key, Attempt: 2, Err: errors.New("the answer 500"),
	})
	clitest.WantText(t, "log", out.String(), `"level":"WARN"`, `"what":"answer_discarded"`, `"key":"`+key.String()+`"`,
		`"error":"the answer 500"`, "after COMMIT", exactlyOncePage)
}
