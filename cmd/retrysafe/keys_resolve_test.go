//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keyadmin"
)

// resolving is a decision, and what retries get after it.
type resolving struct {
	action string
	flags  []string
	status int
	body   string // "" after fail: what the proxy says is looked at by its parts
	asked  int64  // the upstream, in the end
	says   string // on standard output
}

// resolvings returns each decision. The answer to complete is in a file.
func resolvings(t *testing.T) []resolving {
	t.Helper()
	answer := filepath.Join(t.TempDir(), "answer.json")
	must(t, os.WriteFile(answer, []byte(foundAnswer), 0o600))
	return []resolving{
		{"complete", []string{"--complete=" + answer, "--status=202", "--header=Location: /charges/17"}, 202, foundAnswer, 1, "every retry of the request gets this answer"},
		{"fail", []string{"--fail"}, 422, "", 1, "will not run under this key"},
		{"release", []string{"--release"}, 201, "charge 2", 2, "happens twice"},
	}
}

const foundAnswer = "{\"charge\":  17,\n\"found\": \"by hand\"}\n" // as no encoder writes it

// retry posts what was cut off, and checks what it gets.
func (r resolving) retry(p *running, replayed bool) string {
	p.t.Helper()
	got := p.mustPost("k", "amount=1")
	if r.action == "fail" {
		wantText(p.t, "a retry's body", got.body, `"code":"key-closed"`, `"executed":"no"`, `"new_key_required":true`)
	} else {
		want(p.t, "a retry's body", got.body, r.body)
	}
	want(p.t, "a retry's status", got.StatusCode, r.status)
	want(p.t, "replayed", got.Header.Get("Idempotent-Replayed") == "true", replayed)
	if r.action == "complete" {
		want(p.t, "Location", got.Header.Get("Location"), "/charges/17")
		want(p.t, "Content-Type", got.Header.Get("Content-Type"), "application/json")
	}
	return fmt.Sprint(got.StatusCode, got.body)
}

// abandoned waits until the store's only unfinished key is abandoned, and returns its digest.
func abandoned(t *testing.T, store string) string {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		got := runBinary(t, "keys", "list", "--json", "--store="+store)
		if got.code != exitOK || time.Now().After(late) {
			t.Fatalf("no abandoned key: exit code %d, %s%s", got.code, got.stdout, got.stderr)
		}
		if got.stdout != "" {
			var r keyadmin.Record
			must(t, json.Unmarshal([]byte(got.stdout), &r))
			want(t, "state", r.State, keyadmin.Abandoned)
			return r.Digest
		}
	}
}

// resolve carries the decision out, after a dry run that must change nothing, and a second one is refused.
func (r resolving) resolve(t *testing.T, store, digest string) {
	t.Helper()
	args := append([]string{"keys", "resolve", digest, "--store=" + store, "--reason=found in the test", "--by=alice"}, r.flags...)
	dry := runBinary(t, append(args, "--dry-run")...)
	want(t, "exit code of a dry run: "+dry.stderr, dry.code, exitOK)
	wantText(t, "a dry run", dry.stdout, "nothing was changed", r.says)
	want(t, "abandoned after the dry run", abandoned(t, store), digest)
	done := runBinary(t, args...)
	want(t, "exit code: "+done.stderr, done.code, exitOK)
	wantText(t, "output", done.stdout, digest, r.says)
	again := runBinary(t, append(args, "--json")...)
	want(t, "exit code of a second resolution", again.code, exitFailed)
	code := keyadmin.CodeEnded
	if r.action == "release" {
		code = keyadmin.CodeReleased
	}
	wantText(t, "a second resolution", again.stdout, `"code":"`+code+`"`)
	shown := runBinary(t, "keys", "show", digest, "--store="+store)
	wantText(t, "keys show", shown.stdout, r.action+" by alice: found in the test")
}

// A proxy is killed while the upstream works. The key is resolved while the next proxy has the file open. The upstream then ends
// what it began, which changes nothing.
//
// Seen to fail with serveKeys left out of plan.run (the file is in use), with the socket of the killed proxy left in its place,
// with DryRun not passed on, and with the decision's answer replaced by an encoded copy of it.
func TestResolveWhileAProxyHasTheFile(t *testing.T) {
	t.Parallel()
	for _, r := range resolvings(t) {
		t.Run(r.action, func(t *testing.T) {
			t.Parallel()
			up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
			goOn := sync.OnceFunc(func() { close(up.goOn) })
			t.Cleanup(goOn)
			args := []string{"--upstream=" + up.URL, "--store=" + file, "--config=" + writeFile(t, "defaults: {lease: 1s}\n")}
			first := startProxy(t, args...)
			go first.post("k", "amount=1", "X-Hold", "1") // dies with the proxy
			waitFor(t, up.began, "the operation to run")
			first.signal(syscall.SIGKILL)
			first.exit()
			p := startProxy(t, args...)
			wantText(t, "advice", p.logged("unfinished keys")["do"].(string), "retrysafe keys list --store '"+file+"'")
			digest := abandoned(t, file)
			want(t, "status before", p.mustPost("k", "amount=1").StatusCode, 500)

			r.resolve(t, file, digest)
			want(t, "the log has the decision", p.line("decision")["what"], any("key_resolved"))
			told := r.retry(p, r.action != "release")
			goOn() // the old attempt ends now
			want(t, "a later retry", r.retry(p, true), told)
			want(t, "another request under the key", p.mustPost("k", "amount=2").StatusCode, 422)
			want(t, "asked", up.asked.Load(), r.asked)
		})
	}
}

// One of two proxies stands still for longer than its lease while the upstream works. The key is resolved beside the other one, by
// the role that the proxies have. The first then wakes up as a zombie with the upstream's answer, which changes nothing.
//
// Seen to fail with owner, fence and state not compared in complete.sql of pgstore.
func TestResolveBesideAZombie(t *testing.T) {
	t.Parallel()
	for _, r := range resolvings(t) {
		t.Run(r.action, func(t *testing.T) {
			t.Parallel()
			up := newAPI(t)
			owner, store := migratedForRole(t)
			goOn := sync.OnceFunc(func() { close(up.goOn) })
			t.Cleanup(goOn)
			rules := "--config=" + writeFile(t, "defaults: {lease: 2s}\n")
			zombie := startProxy(t, "--upstream="+up.URL, "--store="+withParam(store, "application_name=zombie"), rules)
			other := startProxy(t, "--upstream="+up.URL, "--store="+store, rules)
			woken := make(chan reply, 1)
			go zombie.hold(woken)
			waitFor(t, up.began, "the operation to run")
			zombie.pause(owner, "zombie")
			digest := abandoned(t, store)
			want(t, "status before", other.mustPost("k", "amount=1").StatusCode, 500)

			r.resolve(t, store, digest)
			told := r.retry(other, r.action != "release")
			zombie.signal(syscall.SIGCONT)
			goOn()
			want(t, "status for the zombie's client, which tries again", waitFor(t, woken, "the zombie's answer").StatusCode, 409)
			for zombie.line("trouble")["what"] != "lease_taken" { // its sweep may have noticed the pause before
			}
			for _, p := range []*running{zombie, other} {
				want(t, "a later retry", r.retry(p, true), told)
			}
			want(t, "asked", up.asked.Load(), r.asked)
		})
	}
}

// migratedForRole returns the URLs of a database with a schema, for its owner and for a role that may only use the schema.
func migratedForRole(t *testing.T) (owner, app string) {
	t.Helper()
	pg := shared.Get(t)
	role := "app_" + retrysafe.NewOwner().String() // roles are shared by all databases of a server
	owner = pg.Database(t)
	pg.Psql(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { pg.PsqlAt(t, owner, "DROP OWNED BY "+role); pg.Psql(t, "DROP ROLE "+role) })
	pg.PsqlAt(t, owner, runBinary(t, "migrate", "print", "--role="+role, "--store="+owner).stdout)
	return owner, as(owner, role)
}

// pause stops the process while none of its connections is in a transaction, so that it holds no lock in the database.
func (p *running) pause(store, application string) {
	p.t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		p.signal(syscall.SIGSTOP)
		busy := shared.Get(p.t).PsqlAt(p.t, store, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "+
			"application_name = '"+application+"' AND state <> 'idle'")
		if busy == "0" {
			return
		}
		p.signal(syscall.SIGCONT)
		if time.Now().After(late) {
			p.t.Fatal("the process is always in a transaction")
		}
	}
}

// While an attempt works on a key, the key cannot be resolved.
//
// Seen to fail with keys in flight told as any that has changed.
func TestResolveRefusesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	p := startProxy(t, "--upstream="+up.URL, "--store="+file)
	answered := make(chan reply, 1)
	go p.hold(answered)
	waitFor(t, up.began, "the operation to run")
	list := runBinary(t, "keys", "list", "--state=in-flight", "--json", "--store="+file)
	var r keyadmin.Record
	must(t, json.Unmarshal([]byte(list.stdout), &r))
	none := runBinary(t, "keys", "list", "--store="+file)
	want(t, "output", none.stdout, "no abandoned keys; the store also has 1 in-flight: see --state\n")
	for _, decision := range []string{"--fail", "--release"} {
		got := runBinary(t, "keys", "resolve", r.Digest, decision, "--reason=impatience", "--json", "--store="+file)
		want(t, "exit code", got.code, exitFailed)
		wantText(t, "JSON", got.stdout, `"code":"in-flight"`, `"lease_left_seconds":`)
		wantText(t, "text", got.stderr, "is in flight: attempt 1 is working on it", "Nothing was changed")
	}
	close(up.goOn)
	want(t, "body", waitFor(t, answered, "the answer").body, "charge 1")
	shown := runBinary(t, "keys", "show", "urn:retrysafe:key:"+r.Digest, "--answer", "--store="+file)
	wantText(t, "keys show", shown.stdout, "succeeded", "code 201, 8 bytes", "charge 1")
	if strings.Contains(shown.stdout, "decisions") {
		t.Errorf("there is a trail:\n%s", shown.stdout)
	}
}
