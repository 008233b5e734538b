package httpsafe_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// braintree calls the API that Braintree's server SDKs call, which takes no idempotency keys.
type braintree struct{ merchant string } // URL: …/merchants/ID

type transaction struct {
	XMLName xml.Name `xml:"transaction"`
	ID      string   `xml:"id,omitempty"`
	Status  string   `xml:"status,omitempty"`
	Type    string   `xml:"type,omitempty"`
	Amount  string   `xml:"amount,omitempty"`
	OrderID string   `xml:"order-id,omitempty"`
}

// charge makes a transaction whose order ID is the child key of the step, unless one with that order ID is there. An
// error means that it is unknown whether there is one.
func (b braintree) charge(ctx context.Context, orderID, amount string) (transaction, error) {
	earlier, err := b.find(ctx, orderID)
	if err != nil || earlier.ID != "" {
		return earlier, err
	}
	var made struct { // a transaction, or an api-error-response with one inside
		ID      string `xml:"id"`
		Status  string `xml:"status"`
		Message string `xml:"message"`
		Reason  string `xml:"transaction>gateway-rejection-reason"`
	}
	sale := transaction{Type: "sale", Amount: amount, OrderID: orderID}
	if err := b.post(ctx, "/transactions", sale, &made); err != nil {
		return transaction{}, err
	}
	if made.Reason == "duplicate" { // one is there, and the search does not have it yet
		return transaction{}, errors.New(made.Message)
	}
	return transaction{ID: made.ID, Status: cmp.Or(made.Status, made.Message)}, nil
}

// find returns the transaction with an order ID; its ID is "" if there is none. A duplicate that Braintree has rejected
// has the order ID too, and is none.
func (b braintree) find(ctx context.Context, orderID string) (found transaction, err error) {
	type is struct {
		XMLName xml.Name `xml:"search"`
		OrderID string   `xml:"order-id>is"`
	}
	var ids struct {
		IDs []string `xml:"ids>item"`
	}
	if err := b.post(ctx, "/transactions/advanced_search_ids", is{OrderID: orderID}, &ids); err != nil {
		return found, err
	}
	for _, id := range ids.IDs {
		if err := b.send(ctx, http.MethodGet, "/transactions/"+id, nil, &found); err != nil || found.Status != "gateway_rejected" {
			return found, err
		}
	}
	return transaction{}, nil
}

func (b braintree) post(ctx context.Context, path string, in, out any) error {
	body, err := xml.Marshal(in)
	if err != nil {
		return err
	}
	return b.send(ctx, http.MethodPost, path, body, out)
}

func (b braintree) send(ctx context.Context, method, path string, body []byte, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, b.merchant+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/xml")
	r.Header.Set("X-ApiVersion", "6")
	r.SetBasicAuth("public key", "private key")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 && answer.StatusCode != http.StatusUnprocessableEntity {
		return fmt.Errorf("braintree: %s", answer.Status)
	}
	return xml.NewDecoder(answer.Body).Decode(out)
}

// Braintree's server SDKs send no key. The step searches for its own order ID before it charges, so that an attempt
// that takes over finds what the attempt before it has charged, also if that answer was lost.
//
// Seen to fail with the call of find taken out of charge: order-1 was charged twice. Without the look at made.Reason
// order-3 was refused for good, and with that at found.Status taken out it was answered with the refused duplicate.
func Example_braintree() {
	books := &braintreeBooks{}
	server := httptest.NewServer(books)
	defer server.Close()
	provider := braintree{merchant: server.URL + "/merchants/m1"}

	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, // harmless, because of the search
	})
	pay := func(w http.ResponseWriter, r *http.Request) {
		made, err := retrysafe.Step(r.Context(), "charge", func(ctx context.Context, childKey string) (transaction, error) {
			return provider.charge(ctx, childKey, "10.00")
		})
		if err != nil { // the outcome is unknown: the next request continues here
			http.Error(w, "it is unknown whether Braintree has charged", http.StatusBadGateway)
			return
		}
		if made.ID == "" || made.Status == "processor_declined" { // a definite answer, which is kept
			w.WriteHeader(http.StatusPaymentRequired)
		}
		fmt.Fprintln(w, made.ID, made.Status)
	}
	payments := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Required: true})(http.HandlerFunc(pay))
	send := func(key string, happens failure) {
		books.Lock()
		books.next = happens
		books.Unlock()
		r := httptest.NewRequest(http.MethodPost, "/payments", nil)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		fmt.Printf("%s: %d %s\n", key, w.Code, strings.TrimSpace(w.Body.String()))
	}
	send("order-1", answerLost)
	send("order-1", answered)
	send("order-1", answered)
	send("order-2", requestLost)
	send("order-2", answered)
	send("order-3", answerLost)
	send("order-3", searchLags) // within the time of duplicate checking
	send("order-3", answered)
	fmt.Println(books.charges(), "charges")
	// Output:
	// order-1: 502 it is unknown whether Braintree has charged
	// order-1: 200 t1 submitted_for_settlement
	// order-1: 200 t1 submitted_for_settlement
	// order-2: 502 it is unknown whether Braintree has charged
	// order-2: 200 t2 submitted_for_settlement
	// order-3: 502 it is unknown whether Braintree has charged
	// order-3: 502 it is unknown whether Braintree has charged
	// order-3: 200 t3 submitted_for_settlement
	// 3 charges
}

// failure is what happens to the next request that charges.
type failure int

const (
	answered    failure = iota
	requestLost         // before it arrives
	answerLost          // after the charge
	searchLags          // the search does not find it yet; duplicates are still checked
)

// braintreeBooks answers as Braintree's documentation and its SDKs have it, because Braintree itself cannot run in a
// test.
type braintreeBooks struct {
	sync.Mutex
	all  []transaction
	next failure
}

func (b *braintreeBooks) charges() (n int) {
	b.Lock()
	defer b.Unlock()
	for _, t := range b.all {
		if t.Status != "gateway_rejected" {
			n++
		}
	}
	return n
}

func (b *braintreeBooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.Lock()
	defer b.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/merchants/m1/transactions")
	switch {
	case path == "/advanced_search_ids":
		var asked struct {
			OrderID string `xml:"order-id>is"`
		}
		_ = xml.Unmarshal(body, &asked)
		fmt.Fprint(w, `<search-results><page-size type="integer">50</page-size><ids type="array">`)
		for _, t := range slices.Backward(b.all) {
			if t.OrderID == asked.OrderID && b.next != searchLags {
				fmt.Fprintf(w, "<item>%s</item>", t.ID)
			}
		}
		fmt.Fprint(w, "</ids></search-results>")
	case r.Method == http.MethodGet:
		at := slices.IndexFunc(b.all, func(t transaction) bool { return "/"+t.ID == path })
		_ = xml.NewEncoder(w).Encode(b.all[at])
	case b.next == requestLost:
		panic(http.ErrAbortHandler)
	default:
		made := transaction{Status: "submitted_for_settlement", ID: fmt.Sprint("t", len(b.all)+1)}
		_ = xml.Unmarshal(body, &made)
		if b.next == searchLags && slices.ContainsFunc(b.all, func(t transaction) bool { return t.OrderID == made.OrderID }) {
			made.Status = "gateway_rejected"
			b.all = append(b.all, made)
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprintf(w, "<api-error-response><message>Gateway Rejected: duplicate</message><transaction><id>%s</id>"+
				"<status>gateway_rejected</status><gateway-rejection-reason>duplicate</gateway-rejection-reason>"+
				"</transaction></api-error-response>", made.ID)
			return
		}
		b.all = append(b.all, made)
		if b.next == answerLost {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		_ = xml.NewEncoder(w).Encode(made)
	}
}
