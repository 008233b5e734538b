package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Seen to fail with safe taken out of the handler, and with the Observer taken out of the guard.
func TestEverythingIsCounted(t *testing.T) {
	seen, b := newCounters(), new(bank)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{Observer: seen})
	exampletest.Once(t, handler(guard, b), exampletest.Request{
		Path:   "/payments",
		Header: http.Header{"Authorization": {"Bearer alice"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}, b.charges.Load)

	w := httptest.NewRecorder()
	seen.ServeHTTP(w, nil)
	var got map[string]int
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["attempt_started"] != 1 || got["work_succeeded"] != 1 || got["mismatch_refused"] != 1 {
		t.Errorf("got %v, want one attempt, one success, one mismatch", got)
	}
	// All duplicates but the first, and the retry after them, found the key taken.
	if taken := got["answer_replayed"] + got["in_flight_refused"]; taken != exampletest.Duplicates ||
		got["answer_replayed"] < 1 {
		t.Errorf("got %v, want %d replays and refusals", got, exampletest.Duplicates)
	}
}
