package inbox

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
)

// TestARepetitionAfterAReload repeats requests after the settings have changed by which requests are compared. As with
// the records of a store, what was accepted before cannot be compared, and counts as the same request: a client that
// was told to use a new key would have it run twice. Seen to fail with retrysafe.ErrMismatch whenever a digest differs.
func TestARepetitionAfterAReload(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.post(`{"id":"evt_1","amount":1}`).want(http.StatusAccepted)
		after := &kit{
			T: k.T, db: k.db, box: k.box, options: k.options, http: k.http, store: k.store, handler: k.handler,
		}
		after.http.Fingerprint = httpsafe.FingerprintRaw()
		after.http.FingerprintVersion = "2"
		after.post(`{"id":"evt_1","amount":1}`).want(http.StatusAccepted)
		after.post(`{"id":"evt_2","amount":1}`).want(http.StatusAccepted)
		after.post(`{"id":"evt_2","amount":2}`).want(http.StatusUnprocessableEntity)
		k.post(`{"id":"evt_1","amount":2}`).want(http.StatusUnprocessableEntity)
		after.run()
		after.settled(2, 0)
		if n := after.count(outbox.Sent); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

// TestWaitWithTheKeyOfAnother waits for the answer to a request whose key another request has, which did not come
// through the inbox: its route had none then, or has none. The client does not get the other one's answer. Seen to fail
// with fingerprints not compared after awaitEnd: it got 201 and "done".
func TestWaitWithTheKeyOfAnother(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.http.InboxWait, k.http.KeySource = time.Minute, nil
		k.run()
		without := k.http
		without.Inbox = nil
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("charge"))
		r.Header.Set("Idempotency-Key", "key")
		httpsafe.Middleware(k.guard, scope, without)(k.service()).ServeHTTP(w, r)
		if w.Code != http.StatusCreated {
			t.Fatalf("status %d", w.Code)
		}
		k.post("report", "Idempotency-Key: key").wantCode(http.StatusUnprocessableEntity, "key-reused")
		k.post("report", "Idempotency-Key: key").wantCode(http.StatusUnprocessableEntity, "key-reused")
		k.settled(0, 1)
		if n := len(k.seen()); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
	})
}
