package httpsafe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// bank has no idempotency keys, but can be queried by reference. The answer to its first request is lost, and its
// second request is lost before it arrives.
type bank struct {
	requests int
	charges  map[string]string // IDs by reference
}

// charge refuses a reference that it has seen. That also stops a charge that was still on its way when the bank was
// queried.
func (b *bank) charge(reference string) (id string, err error) {
	b.requests++
	if b.requests == 2 {
		return "", errors.New("no route to the bank")
	}
	if b.charges[reference] != "" {
		return "", errors.New("this reference has been used")
	}
	id = fmt.Sprint("ch_", len(b.charges)+1)
	b.charges[reference] = id
	if b.requests == 1 {
		return "", errors.New("connection reset")
	}
	return id, nil
}

// find returns "" if there is no charge with the reference.
func (b *bank) find(reference string) (id string, err error) { return b.charges[reference], nil }

// shop charges at the bank.
type shop struct{ bank *bank }

// pay charges under a reference that is the same in every attempt. After a 502 the outcome is unknown: the key is
// abandoned, and a retry reconciles.
func (s shop) pay(w http.ResponseWriter, r *http.Request) {
	reference, err := retrysafe.ChildKey(r.Context(), "charge")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	id, err := s.bank.charge(reference)
	if err != nil {
		http.Error(w, "it is unknown whether the bank has charged", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "paid: ", id)
}

// queryBank finds out what happened to an abandoned payment. It returns the same answer as pay.
func (s shop) queryBank(_ context.Context, a *retrysafe.Attempt, _ retrysafe.Record) (*retrysafe.Result, error) {
	id, err := s.bank.find(a.ChildKey("charge"))
	if err != nil || id == "" { // still unknown; or never charged, and pay runs
		return nil, err
	}
	header := http.Header{"Content-Type": {"text/plain"}}
	result := httpsafe.NewResult(http.StatusCreated, header, []byte("paid: "+id))
	return &result, nil
}

// The retry of an interrupted attempt queries the bank. Then it answers with the charge that it has found, or charges.
func ExampleNewResult() {
	s := shop{&bank{charges: map[string]string{}}}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{OnAbandoned: retrysafe.Reconcile(s.queryBank)},
	})
	payments := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Required: true})(http.HandlerFunc(s.pay))

	for _, key := range []string{"order-1", "order-1", "order-1", "order-2", "order-2"} {
		r := httptest.NewRequest(http.MethodPost, "/payments", nil)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		body, replayed := strings.TrimSpace(w.Body.String()), w.Header().Get("Idempotent-Replayed")
		fmt.Printf("%s: %d %s, replayed: %q\n", key, w.Code, body, replayed)
	}
	fmt.Println(len(s.bank.charges), "charges")
	// Output:
	// order-1: 502 it is unknown whether the bank has charged, replayed: ""
	// order-1: 201 paid: ch_1, replayed: "true"
	// order-1: 201 paid: ch_1, replayed: "true"
	// order-2: 502 it is unknown whether the bank has charged, replayed: ""
	// order-2: 201 paid: ch_2, replayed: ""
	// 2 charges
}
