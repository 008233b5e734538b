package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/sealed"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A request is acknowledged while nothing delivers, its repetition gets the same answer and is not saved, and it runs once
// when deliveries begin. Seen to fail with Status.Taken ignored in Inbox.Accept (422 became 202), and with Waiting left
// out of the status (404).
func TestAcceptAndDeliver(t *testing.T) {
	everywhere(t, func(k *kit) {
		first := k.post(`{"id":1}`).want(202)
		again := k.post(`{"id":1}`, "Date: later").want(202)
		if first.Body.String() != again.Body.String() || first.Header().Get("Location") != again.Header().Get("Location") {
			k.Errorf("the repetition got another answer: %s and %s", first.Body, again.Body)
		}
		k.post(`{"id":1,"amount":2}`).wantCode(422, "key-reused")
		k.post(`{"id":1}`, "Caller: other").want(202)
		if n := k.count(outbox.Pending); n != 2 {
			k.Errorf("%d requests are saved, want 2", n)
		}
		if s := k.status(first, ""); s != "accepted" {
			k.Errorf("the state is %q", s)
		}
		if s := k.status(first, "other"); s != "unknown" {
			k.Errorf("another caller is told that the state is %q", s)
		}
		k.run()
		k.settled(2, 0)
		k.post(`{"id":1}`).want(202)
		if s := k.status(first, ""); s != "succeeded" {
			k.Errorf("the state is %q", s)
		}
		if runs := k.seen(); len(runs) != 2 || runs[0] != `{"id":1}` {
			k.Errorf("the service has seen %q", runs)
		}
	})
}

// Each of many events that are sent several times at once, to two inboxes that both deliver, runs once. Seen to fail with
// httpsafe.DeliveryFrom ignored in the Middleware: nothing was ever delivered; and with the messages keyed at random: all
// repetitions ran.
func TestSentSeveralTimesAtOnce(t *testing.T) {
	everywhere(t, func(k *kit) {
		const events, times = 30, 5
		k.run()
		k.run()
		var all sync.WaitGroup
		var refused atomic.Int64
		for range times {
			for i := range events {
				all.Go(func() {
					if k.post(fmt.Sprintf(`{"id":%d}`, i)).Code != 202 {
						refused.Add(1)
					}
				})
			}
		}
		all.Wait()
		k.settled(events, 0)
		runs := k.seen()
		slices.Sort(runs)
		if len(runs) != events || len(slices.Compact(runs)) != events || refused.Load() != 0 {
			k.Errorf("%d events ran %d times, %d requests were refused", events, len(runs), refused.Load())
		}
	})
}

// What becomes of a request by what the service answers. Seen to fail with each of the cases of judge in deliver.go
// answered as the one before it.
func TestAnswersOfTheService(t *testing.T) {
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
	}
	for name, c := range map[string]struct {
		answers    []http.HandlerFunc // one for each run; the last for all others
		policy     retrysafe.Policy
		runs       int
		sent, dead int
		error      string
	}{
		"a success":  {answers: []http.HandlerFunc{status(200)}, runs: 1, sent: 1},
		"nothing":    {answers: []http.HandlerFunc{func(http.ResponseWriter, *http.Request) {}}, runs: 1, sent: 1},
		"a redirect": {answers: []http.HandlerFunc{status(302)}, runs: 1, dead: 1, error: "302"},
		"a refusal":  {answers: []http.HandlerFunc{status(422)}, runs: 1, dead: 1, error: "422"},
		"not now": {answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			httpsafe.Release(r.Context())
			w.WriteHeader(503)
		}, status(200)}, runs: 2, sent: 1},
		"not sent": {answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			httpsafe.Release(r.Context())
			w.WriteHeader(503)
		}}, runs: 3, dead: 1, error: "503"},
		"unknown": {answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			httpsafe.Unknown(r.Context())
			w.WriteHeader(502)
		}}, runs: 1, dead: 1, error: "unknown"},
		"unknown, and rerun": {answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			httpsafe.Unknown(r.Context())
			w.WriteHeader(502)
		}, status(200)}, policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, runs: 2, sent: 1},
		"a panic": {
			answers: []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
			runs:    1, dead: 1, error: "unknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, outbox.SQLite)
			k.policy, k.options.Attempts = c.policy, 3
			var n atomic.Int64
			k.handler = func(w http.ResponseWriter, r *http.Request) {
				c.answers[min(int(n.Add(1)), len(c.answers))-1](w, r)
			}
			k.post(`{"id":1}`).want(202)
			k.run()
			k.settled(c.sent, c.dead)
			if runs := len(k.seen()); runs != c.runs {
				t.Errorf("the service ran %d times, want %d", runs, c.runs)
			}
			letters, err := k.box.Dead(t.Context(), 0, 10)
			if err != nil || c.dead == 1 && !strings.Contains(letters[0].Error, c.error) {
				t.Errorf("got %+v, %v", letters, err)
			}
		})
	}
}

// Requests about the same are delivered one after the other, in the order of their acknowledgement, and others beside
// them. Seen to fail without the order in the message: the second came before the first was done.
func TestOrder(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.options.Order = httpsafe.TagPlace{Pointer: "/order"}
		var tries atomic.Int64
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("First") != "" && tries.Add(1) < 4 {
				httpsafe.Release(r.Context())
				w.WriteHeader(503)
			}
		}
		k.post(`{"id":1,"order":"a"}`, "First: yes").want(202)
		for i := 2; i <= 6; i++ {
			k.post(fmt.Sprintf(`{"id":%d,"order":"a"}`, i)).want(202)
		}
		k.post(`{"id":7}`).want(202)
		k.post(`{"id":8,"order":"b"}`).want(202)
		k.run()
		k.settled(8, 0)
		var ofA []string
		for _, body := range k.seen() {
			if strings.Contains(body, `"a"`) {
				ofA = append(ofA, body[6:7])
			}
		}
		if got := strings.Join(ofA, ""); got != "1111"+"23456" {
			k.Errorf("requests about one order came as %s", got)
		}
	})
}

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

// A sender gets the answer that the route has for it, as does its repetition; a client that knows the interface, and says so
// with Prefer, gets 202. Wrong answers are refused when the middleware is made. Seen to fail with InboxAnswer ignored, and
// without the Location.
func TestAnotherAnswer(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.http.InboxAnswer = httpsafe.InboxAnswer{Status: 200, Body: `{"received":true}`}
		first, again := k.post(`{"id":1}`).want(200), k.post(`{"id":1}`).want(200)
		for _, a := range []answer{first, again} {
			if a.Body.String() != `{"received":true}` || a.Header().Get("Content-Type") != "application/json" ||
				a.Header().Get("Location") != first.Header().Get("Location") || k.status(a, "") != "accepted" {
				k.Errorf("got %v, %s", a.Header(), a.Body)
			}
		}
		if fmt.Sprint(first.Header()) != fmt.Sprint(again.Header()) {
			k.Errorf("the repetition got %v, and not %v", again.Header(), first.Header())
		}
		k.post(`{"id":1}`, "Prefer: respond-async").want(202)
		k.post(`{"id":1,"amount":2}`).wantCode(422, "key-reused")
		k.run()
		k.settled(1, 0)
		k.post(`{"id":1}`).want(200)
		k.post(`{"id":1}`, "Prefer: wait=10").want(201)
	})
	for _, a := range []httpsafe.InboxAnswer{{Status: 204}, {Body: "ok"}, {Body: "<a/>", ContentType: "application/xml"}, {Status: 200}} {
		k := newKit(t, outbox.SQLite)
		k.http.InboxAnswer = a
		got := k.post(`{"id":1}`).want(cmp.Or(a.Status, 202))
		want := cmp.Or(a.ContentType, "text/plain; charset=utf-8")
		if a.Body == "" {
			want = ""
		}
		if got.Body.String() != a.Body || got.Header().Get("Content-Type") != want {
			t.Errorf("%+v: got %v, %s", a, got.Header(), got.Body)
		}
	}
	for _, a := range []httpsafe.InboxAnswer{
		{Status: 199},
		{Status: 302},
		{Status: 204, Body: "ok"},
		{Status: 205, ContentType: "text/plain"},
		{Body: strings.Repeat("x", 16<<10+1)},
		{ContentType: "text/plain"},
		{Body: "ok", ContentType: "te xt"},
	} {
		o := httpsafe.Options{InboxAnswer: a}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "InboxAnswer") {
			t.Errorf("%+v was taken: %v", a, err)
		}
	}
}

// While the oldest request that waits for its first delivery is too old, new ones are refused before anything is written.
// One that was tried and failed, that waits for its time, or that waits behind a dead letter does not count; one whose
// service could not be reached does, from its acceptance. Seen to fail with the lag not looked at in refuse, and on SQLite
// with the tries and the order left out of lag.sql, and with each of its two times for all.
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
	})
}

// The policy page explains each refusal of an inbox. Seen to fail with Problems left out of Rules.
func TestProblemsArePublished(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.build()
	published := k.http.Rules("POST /hooks", retrysafe.Policy{}).Problems
	for _, slug := range []httpsafe.Slug{inbox.Full, inbox.CallerFull, inbox.Behind, inbox.ScheduleRefused, inbox.HeaderRefused} {
		if !slices.ContainsFunc(published, func(p httpsafe.Problem) bool { return p.Slug == slug && p.Detail != "" && p.Status >= 400 }) {
			t.Errorf("%s is not explained", slug)
		}
	}
}

// A request waits for its time, and one whose time cannot be kept is refused. Seen to fail with the delay left out of the
// entry: it ran at once.
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

// A client that waits gets the answer itself: the first as any first answer, others as replays. Seen to fail with fresh
// ignored in answerDelivered.
func TestWait(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.http.InboxWait = time.Minute
		k.run()
		first := k.post(`{"id":1}`).want(201)
		again := k.post(`{"id":1}`, "Prefer: wait=50").want(201)
		if first.Header().Get("Idempotent-Replayed") != "" || again.Header().Get("Idempotent-Replayed") != "true" ||
			again.Header().Get("Preference-Applied") != "wait=50" || again.Body.String() != "done" {
			k.Errorf("got %v and %v", first.Header(), again.Header())
		}
		async := k.post(`{"id":2}`, "Prefer: respond-async").want(202)
		if async.Header().Get("Preference-Applied") != "respond-async" {
			k.Errorf("got %v", async.Header())
		}
		k.settled(2, 0)
	})
	t.Run("in vain", func(t *testing.T) {
		k := newKit(t, outbox.SQLite)
		k.post(`{"id":1}`, "Prefer: wait=1").want(202)
	})
}

// A client that waits is not told of an outcome that is unknown until the next try, as under Rerun. Seen to fail with
// Retryable not looked at in awaitEnd: it got the problem.
func TestWaitWhileItIsTriedAgain(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.policy.OnAbandoned = retrysafe.Rerun()
		k.options.FirstDelay, k.options.MaxDelay = time.Hour, time.Hour
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			httpsafe.Unknown(r.Context())
			w.WriteHeader(502)
		}
		k.run()
		k.post(`{"id":1}`, "Prefer: wait=1").want(202)
		if n := len(k.seen()); n != 1 {
			k.Errorf("it ran %d times", n)
		}
	})
}

// A repetition that comes during the delivery gets its 202, also if it waits for permission to send its body. Seen to fail
// with Inbox not looked at in answerUnread: it was told of itself, with 409.
func TestARepetitionThatExpects(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.http.KeySource = nil
	begun, release := make(chan struct{}), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	k.handler = func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-release
	}
	k.run()
	defer free()
	k.post("body", "Idempotency-Key: key").want(202)
	<-begun
	k.post("body", "Idempotency-Key: key", "Expect: 100-continue").want(202)
	free()
	k.settled(1, 0)
}

// The service gets the request as it came, but for credentials, and is told when it was accepted. Seen to fail with each
// name taken out of unsaved, with the fields that Connection names saved, and with values joined by a comma.
func TestTheRequestAsItCame(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.options.KeepHeaders = []string{"cookie"}
		var got atomic.Pointer[http.Request]
		k.handler = func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Clone(r.Context())) }
		body, err := json.Marshal(map[string]string{"id": "1", "text": "\x00\u2028é"})
		if err != nil {
			k.Fatal(err)
		}
		k.post(string(body), "X-Many: a, b", "X-Many: c", "Authorization: Bearer secret", "X-Api-Key: secret", "Cookie: session=1", "Stripe-Signature: t=1,v1=f",
			"Connection: keep-alive, x-hop", "X-Hop: 1").want(202)
		k.post(`{"id":2}`, "X-Bad: \xff").wantCode(400, "header-refused")
		k.run()
		k.settled(1, 0)
		r := got.Load()
		if many := r.Header["X-Many"]; !slices.Equal(many, []string{"a, b", "c"}) {
			k.Errorf("X-Many is %q", many)
		}
		for name, want := range map[string]string{
			"Authorization": "", "X-Api-Key": "", "Connection": "", "X-Hop": "", "Cookie": "session=1", "Stripe-Signature": "t=1,v1=f",
		} {
			if value := r.Header.Get(name); value != want {
				k.Errorf("%s is %q, want %q", name, value, want)
			}
		}
		if _, err := time.Parse(time.RFC3339, r.Header.Get("Retrysafe-Accepted")); err != nil {
			k.Error(err)
		}
		if runs := k.seen(); r.Method != "POST" || r.URL.Path != "/hooks" || r.Host != "example.com" || runs[0] != string(body) {
			k.Errorf("got %s %s%s, %q", r.Method, r.Host, r.URL, runs)
		}
	})
}

// While the database fails, nothing is acknowledged, and the client is told to retry. Seen to fail with the error of Put
// left out.
func TestNothingIsAcknowledgedThatIsNotSaved(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.post(`{"id":1}`).want(202)
		if _, err := k.db.Exec("ALTER TABLE inbox RENAME TO away"); err != nil {
			k.Fatal(err)
		}
		a := k.post(`{"id":2}`)
		a.wantCode(503, "store-unavailable")
		if !strings.Contains(a.Body.String(), `"retryable":true`) || a.Header().Get("Retry-After") == "" {
			k.Errorf("got %s", a.Body)
		}
		if _, err := k.db.Exec("ALTER TABLE away RENAME TO inbox"); err != nil {
			k.Fatal(err)
		}
		k.post(`{"id":2}`).want(202)
		k.run()
		k.settled(2, 0)
	})
}

// A message that another program has put into the table under the topic is no request, and runs nothing. Seen to fail with
// the key not compared in request.
func TestForeignMessages(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.build()
	digest := []byte("digest")
	for key, header := range map[string]map[string]string{
		"empty":  nil,
		"forged": {":scope": "sender", ":key": "1", ":method": "POST", ":target": "/hooks", ":host": "example.com"},
		"broken": {":scope": "sender", ":key": "1", ":method": "POST", ":target": "::"},
	} {
		if _, err := k.box.Put(t.Context(), outbox.Entry{
			Message: outbox.Message{Key: key, Topic: topic, Header: header, Body: []byte(`{"id":1}`)}, Digest: digest,
		}); err != nil {
			t.Fatal(err)
		}
	}
	k.run()
	k.settled(0, 3)
	if runs := k.seen(); len(runs) != 0 {
		t.Errorf("the service has seen %q", runs)
	}
}

// The handler of a delivered request calls another guarded one, which finds its own key. Seen to fail with the delivery
// visible in the handler's context: the second call got the answer of the first.
func TestADeliveryEndsAtItsHandler(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	inner := httpsafe.Middleware(retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1}), scope, httpsafe.Options{})
	var status atomic.Int64
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		other := r.Clone(r.Context())
		other.Header.Set("Idempotency-Key", "another-key")
		other.Body = io.NopCloser(strings.NewReader("x"))
		rec := &statusOf{ResponseWriter: w}
		inner(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a, ok := retrysafe.AttemptFrom(r.Context())
			if ok && a.Key().ID == "another-key" {
				w.WriteHeader(http.StatusTeapot)
			}
		})).ServeHTTP(rec, other)
		status.Store(int64(rec.status))
	}
	k.post(`{"id":1}`).want(202)
	k.run()
	k.until("it was delivered", func() bool { return k.count(outbox.Pending) == 0 })
	if status.Load() != http.StatusTeapot {
		t.Errorf("the inner handler answered %d", status.Load())
	}
}

type statusOf struct {
	http.ResponseWriter
	status int
}

func (s *statusOf) WriteHeader(status int) { s.status = status }
func (s *statusOf) Write(b []byte) (int, error) {
	return len(b), nil
}

// The body of a request whose client leaves while it is being saved is its own, whatever requests come after it. Seen to
// fail with put returning when the client leaves: the buffer went to the next request, whose body was saved instead.
func TestAClientThatLeaves(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.post(`{"id":0}`).want(202)
	lock, err := k.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := 1; i <= 20; i++ {
		ctx, leave := context.WithCancel(t.Context())
		began := make(chan struct{})
		all.Go(func() {
			body := fmt.Sprintf(`{"id":%d}`, i)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hooks", &signalling{strings.NewReader(body), began})
			k.guarded.ServeHTTP(httptest.NewRecorder(), r)
		})
		<-began
		leave()
	}
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	k.run()
	k.until("all were settled", func() bool { return k.count(outbox.Pending) == 0 })
	runs := k.seen()
	slices.Sort(runs)
	if n := len(slices.Compact(slices.Clone(runs))); n != 21 || len(runs) != 21 {
		t.Errorf("21 requests were saved, and the service has seen %d in %d runs", n, len(runs))
	}
	if n := k.count(outbox.Dead); n != 0 {
		t.Errorf("%d requests are dead", n)
	}
}

// A request that cannot be saved fails alone, and those that are saved together with it do not. Seen to fail with
// saveHalves ending all with the error.
func TestOneThatCannotBeSaved(t *testing.T) {
	everywhere(t, func(k *kit) {
		const callers, each = 40, 5
		k.http.KeySource = nil
		var all sync.WaitGroup
		var accepted atomic.Int64
		for caller := range callers {
			all.Go(func() {
				for i := range each {
					body := fmt.Sprint("request ", caller, " ", i)
					if caller == 7 {
						body = sealed.Marker + body
					}
					if k.post(body, fmt.Sprintf("Idempotency-Key: %d-%d", caller, i)).Code == 202 {
						accepted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if saved := k.count(outbox.Pending); accepted.Load() != (callers-1)*each || saved != (callers-1)*each {
			k.Errorf("%d were accepted and %d saved, not %d", accepted.Load(), saved, (callers-1)*each)
		}
	})
}

// Requests about several keys, which two inboxes accept at once and in groups, are saved once each, and the others of each
// key get the answer of the first or are refused: also those that differ and are in a group with it.
func TestTwoInboxesAtOnce(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.build()
		second := &kit{T: k.T, db: k.db, box: k.box, options: k.options, http: k.http, handler: k.handler}
		const keys, callers = 61, 24
		answers := make([]map[int]int, 2*keys) // of each key and amount, how many got which status
		for i := range answers {
			answers[i] = map[int]int{}
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				by, amount := []*kit{k, second}[caller%2], caller/2%2
				for i := range keys {
					id := (i*(1+caller%5*2) + caller) % keys // in another order each: the number of keys is prime
					code := by.post(fmt.Sprintf(`{"id":%d,"amount":%d}`, id, amount)).Code
					mu.Lock()
					answers[2*id+amount][code]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for id := range keys {
			a, b := answers[2*id], answers[2*id+1]
			total := a[202] + a[422] + b[202] + b[422]
			if a[202] > 0 == (b[202] > 0) || a[202] > 0 == (a[422] > 0) || b[202] > 0 == (b[422] > 0) || total != callers {
				k.Errorf("key %d: answers %v and %v", id, a, b)
			}
		}
		if n := k.count(outbox.Pending); n != keys {
			k.Errorf("%d requests are saved, not %d", n, keys)
		}
	})
}

// signalling is a body that tells when it has been read.
type signalling struct {
	*strings.Reader
	read chan struct{}
}

func (s *signalling) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF {
		close(s.read)
	}
	return n, err
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
