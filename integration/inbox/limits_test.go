package inbox

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/outbox"
)

// What there is no room for is refused before it is written, and room comes again. Seen to fail with each of the limits
// taken out of refuse.
func TestLimits(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.options.MaxWaiting, k.options.MaxPerCaller, k.options.MaxBytes = 4, 2, 200
		k.post(`{"id":1}`, "Caller: a").want(202)
		k.post(`{"id":0,"text":"`+strings.Repeat("x", 300)+`"}`, "Caller: a").wantCode(503, "inbox-full")
		k.post(`{"id":2}`, "Caller: a").want(202)
		k.post(`{"id":3}`, "Caller: a").wantCode(429, "inbox-caller-full")
		k.post(`{"id":4}`, "Caller: b").want(202)
		k.post(`{"id":5}`, "Caller: c").want(202)
		k.post(`{"id":6}`, "Caller: d").wantCode(503, "inbox-full")
		if n := k.count(outbox.Pending); n != 4 {
			k.Errorf("%d requests are saved, want 4", n)
		}
		k.run()
		k.settled(4, 0)
		k.until("there was room", func() bool { return k.post(`{"id":3}`, "Caller: a").Code == 202 })
	})
}

// Without a limit for each caller, one may fill the inbox. Seen to fail with MaxPerCaller > 0 left out of refuse.
func TestOneCaller(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.SQLite)
	k.options.MaxWaiting, k.options.MaxPerCaller = 2, -1
	k.post(`{"id":1}`).want(202)
	k.post(`{"id":2}`).want(202)
	k.post(`{"id":3}`).wantCode(503, "inbox-full")
}

// A repetition of a request that waits is no new key: its client has perhaps lost the 202, and a refusal would tell it
// that nothing was executed, of a request that is going to be. Seen to fail with the inbox not asked in refusedByQuota:
// 429.
func TestQuota(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.http.KeySource = nil
		wait := time.Duration(0)
		k.http.QuotaFunc = func(*http.Request, string) time.Duration { return wait }
		k.post("one", "Idempotency-Key: a").want(202)
		wait = time.Minute
		k.post("one", "Idempotency-Key: a").want(202)
		k.post("two", "Idempotency-Key: a").wantCode(422, "key-reused")
		k.post("one", "Idempotency-Key: b").wantCode(429, "key-quota")
		k.run()
		k.settled(1, 0)
	})
}

// While the oldest request that waits for its first delivery is too old, new ones are refused before anything is written.
// One that was tried and failed, that waits for its time, or that waits behind a dead letter does not count; one whose
// service could not be reached does, from its acceptance, and so does one whose predecessor has ended. Seen to fail
// with the lag not looked at in refuse, and on SQLite with the tries and the order left out of lag.sql, and with each
// of its two times for all.
func TestMaxLag(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.options.MaxLag, k.options.MaxSchedule, k.options.Order = time.Hour, 10*time.Hour, httpsafe.TagPlace{Pointer: "/order"}
		exec := func(text string, args ...any) {
			k.Helper()
			if _, err := k.db.Exec(text, args...); err != nil {
				k.Fatal(err)
			}
		}
		accepts := func(what, body string) {
			k.Helper()
			k.until("a request was accepted: "+what, func() bool { return k.post(body).Code == 202 })
		}
		refused := func(what string) {
			k.Helper()
			k.until("a request was refused: "+what, func() bool { return k.post(`{"id":3,"text":"new"}`).Code == 503 })
			a := k.post(`{"id":99}`)
			a.wantCode(503, "inbox-behind")
			if a.Header().Get("Retry-After") != "60" {
				k.Errorf("got %v", a.Header())
			}
			if n := k.count(outbox.Pending); n != 5 {
				k.Errorf("%d requests are saved, want 5", n)
			}
		}
		for i, what := range []string{`"order":"a"`, `"order":"a"`, `"text":"failed"`, `"text":"new"`} {
			accepts(what, fmt.Sprintf(`{"id":%d,%s}`, i, what))
		}
		k.post(`{"id":4}`, "Retrysafe-Deliver-At: "+time.Now().Add(5*time.Hour).UTC().Format(time.RFC3339)).want(202)
		later := time.Hour.Microseconds() * 2
		exec(fmt.Sprintf("UPDATE inbox SET saved_at = saved_at - %d, due_at = due_at - %[1]d", later))
		refused("two hours later")
		exec("UPDATE inbox SET tries = 1 WHERE id <= 3") // of which the second was not tried, in the end
		exec("UPDATE inbox SET tries = 0 WHERE id = 2")
		exec(fmt.Sprintf("UPDATE inbox SET due_at = due_at + %d WHERE id = 4", later))
		accepts("others wait for their time, for one before them, or failed", `{"id":3,"text":"new"}`)
		exec("UPDATE inbox SET error = 'the service cannot be reached' WHERE id = 4")
		refused("the service cannot be reached")
		exec("UPDATE inbox SET error = '' WHERE id = 4")
		accepts("it was reached", `{"id":3,"text":"new"}`)
		exec("UPDATE inbox SET state = 2 WHERE id = 1") // it was sent
		k.until("the next of its order counts from its acceptance", func() bool { return k.post(`{"id":98}`).Code == 503 })
	})
}

// The policy page explains each refusal of an inbox. Seen to fail with Problems left out of Rules.
func TestProblemsArePublished(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.build()
	published := k.http.Rules("POST /hooks", retrysafe.Policy{}).Problems
	for _, slug := range []httpsafe.Slug{
		inbox.Full, inbox.CallerFull, inbox.Behind, inbox.ScheduleRefused, inbox.HeaderRefused, inbox.BodyRefused,
	} {
		if !slices.ContainsFunc(published, func(p httpsafe.Problem) bool { return p.Slug == slug && p.Detail != "" && p.Status >= 400 }) {
			t.Errorf("%s is not explained", slug)
		}
	}
}

// A request waits for its time, and one whose time cannot be kept is refused, but for repetitions of one that waits. Seen
// to fail with the delay left out of the entry: it ran at once. And with each error of delayOf returned: a client whose
// 202 was lost was told that nothing is executed.
func TestSchedule(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.options.MaxSchedule = 2 * time.Hour
		at := func(d time.Duration) string {
			return "Retrysafe-Deliver-At: " + time.Now().Add(d).UTC().Format(time.RFC3339)
		}
		later := k.post(`{"id":1}`, at(time.Hour)).want(202)
		k.post(`{"id":2}`, at(-time.Hour)).want(202)
		k.post(`{"id":3}`, at(3*time.Hour)).wantCode(400, "schedule-refused")
		k.post(`{"id":3}`, "Retrysafe-Deliver-At: tomorrow").wantCode(400, "schedule-refused")
		k.run()
		k.until("the due one was delivered", func() bool { return k.count(outbox.Sent) == 1 })
		if runs := k.seen(); len(runs) != 1 || runs[0] != `{"id":2}` || k.status(later, "") != "accepted" {
			k.Errorf("the service has seen %q", runs)
		}
		if _, err := k.db.Exec("UPDATE inbox SET due_at = due_at - 3600000000 WHERE state = 1"); err != nil {
			k.Fatal(err)
		}
		k.settled(2, 0)
	})
	t.Run("not any more", func(t *testing.T) {
		k := newKit(t, outbox.SQLite)
		at := "Retrysafe-Deliver-At: " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		k.options.MaxSchedule = 2 * time.Hour
		k.post(`{"id":1}`, at).want(202)
		for _, shorter := range []time.Duration{time.Minute, 0} {
			after := &kit{T: k.T, db: k.db, box: k.box, options: k.options, http: k.http, handler: k.handler}
			after.options.MaxSchedule = shorter
			after.post(`{"id":1}`, at).want(202)
			after.post(`{"id":2}`, at).wantCode(400, "schedule-refused")
		}
	})
	t.Run("not allowed", func(t *testing.T) {
		k := newKit(t, outbox.SQLite)
		k.post(`{"id":1}`, "Retrysafe-Deliver-At: 2030-01-01T00:00:00Z").wantCode(400, "schedule-refused")
	})
}

// A key that is too old is refused when it comes, unless its request is known. One that grows too old while its request
// waits is delivered all the same. Seen to fail with the age not asked for in acceptIntoInbox (202), with known keys refused
// there, and with the age asked for at the delivery: a dead letter.
func TestOldKeys(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.http.KeySource, k.http.MaxKeyAge = nil, time.Hour
		key := func(age time.Duration) string {
			ms := time.Now().Add(-age).UnixMilli()
			return fmt.Sprintf("Idempotency-Key: %08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
		}
		k.post("old", key(2*time.Hour)).wantCode(422, "key-expired")
		young := key(time.Minute)
		k.post("young", young).want(202)
		k.http.MaxKeyAge = time.Millisecond
		k.guarded = httpsafe.Middleware(k.guard, scope, k.http)(k.service())
		k.post("young", young).want(202)
		k.run()
		k.settled(1, 0)
		k.post("young", young).want(202)
		if got := k.seen(); len(got) != 1 || got[0] != "young" {
			k.Errorf("the service has seen %q", got)
		}
	})
}

// The first requests after a start wait for one count of what waits: a count for each would keep the database from ending
// any. Seen to fail with a count for each request: there were 20.
func TestOneCountForAllAtAStart(t *testing.T) {
	k := newKit(t, outbox.PostgreSQL)
	lock, err := k.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec("LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	began := make(chan struct{}, 20)
	for i := range cap(began) {
		callers.Go(func() {
			began <- struct{}{}
			if w := k.post(fmt.Sprintf(`{"id":%d}`, i)); w.Code != http.StatusAccepted {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
	for range cap(began) {
		<-began
	}
	counts := func() (n int) {
		const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND backend_type = 'client backend'"
		if err := k.db.QueryRow(waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	k.until("a request counts", func() bool { return counts() > 0 })
	for range 20 { // the others have had their chance
		if n := counts(); n != 1 {
			t.Fatalf("%d requests count", n)
		}
	}
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	callers.Wait()
}
