package inbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
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

// The text of a panic may hold a secret. It is in the log of the process, as with net/http, and not kept with the
// request. Seen to fail with the panic's value in the error, and without log.Printf.
func TestTheTextOfAPanicIsNotKept(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged) // the other tests are parallel, and wait
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	k := newKit(t, outbox.SQLite)
	k.options.Attempts = 1
	k.handler = func(http.ResponseWriter, *http.Request) { panic("card 4242") }
	k.post(`{"id":1}`).want(202)
	stop := k.run()
	k.settled(0, 1)
	stop()
	letters, err := k.box.Dead(t.Context(), 0, 10)
	if err != nil || letters[0].Error != "inbox: the handler panicked" {
		t.Errorf("got %+v, %v", letters, err)
	}
	if text := logged.String(); !strings.Contains(text, "card 4242") || !strings.Contains(text, "inbox_test.go") {
		t.Errorf("the log has no panic with its stack: %s", text)
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
		k.options.FirstDelay, k.options.MaxDelay = 1000*time.Hour, 1000*time.Hour
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			httpsafe.Unknown(r.Context())
			w.WriteHeader(502)
		}
		k.run()
		k.post(`{"id":1}`, "Prefer: wait=1").want(202)
		k.until("it ran once", func() bool { return len(k.seen()) == 1 })
	})
}

// While the database of the inbox is away, it is not known what became of a request that has no record. Seen to fail
// with the error passed over in waiting: 404, as for a key that was never used, for a request that was accepted.
func TestStatusWhileTheDatabaseIsAway(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	accepted := k.post(`{"id":1}`).want(202)
	k.db.Close()
	w := httptest.NewRecorder()
	httpsafe.StatusHandler(k.guard, scope, k.http).ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, accepted.Header().Get("Location"), nil))
	answer{w, k}.wantCode(503, "store-unavailable")
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
		k.http.Profile = httpsafe.IETF()
		k.http.Profile.AllowEarlyData = true
		var got atomic.Pointer[http.Request]
		k.handler = func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Clone(r.Context())) }
		body, err := json.Marshal(map[string]string{"id": "1", "text": "\x00\u2028é"})
		if err != nil {
			k.Fatal(err)
		}
		k.post(string(body), "X-Many: a, b", "X-Many: c", "Authorization: Bearer secret", "X-Api-Key: secret", "Cookie: session=1", "Stripe-Signature: t=1,v1=f",
			"Connection: keep-alive, x-hop", "X-Hop: 1", "Early-Data: 1").want(202)
		k.post(`{"id":2}`, "X-Bad: \xff").wantCode(400, "header-refused")
		k.run()
		k.settled(1, 0)
		r := got.Load()
		if many := r.Header["X-Many"]; !slices.Equal(many, []string{"a, b", "c"}) {
			k.Errorf("X-Many is %q", many)
		}
		for name, want := range map[string]string{
			"Authorization": "", "X-Api-Key": "", "Connection": "", "X-Hop": "", "Cookie": "session=1", "Stripe-Signature": "t=1,v1=f",
			"Early-Data": "", // with which a service may refuse each delivery (RFC 8470, section 5.2)
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
