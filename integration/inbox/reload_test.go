package inbox

import (
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
)

// TestARepetitionAfterAReload repeats requests after the settings have changed by which requests are compared. As with
// the records of a store, what was accepted before cannot be compared, and counts as the same request: a client that was
// told to use a new key would have it run twice. Seen to fail with retrysafe.ErrMismatch whenever a digest differs.
func TestARepetitionAfterAReload(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.post(`{"id":"evt_1","amount":1}`).want(http.StatusAccepted)
		after := &kit{T: k.T, db: k.db, box: k.box, options: k.options, http: k.http, store: k.store, handler: k.handler}
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
