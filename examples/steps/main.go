// Command steps is a checkout in three steps, each a call to another service. An interrupted attempt runs again:
// finished steps are not repeated, and the interrupted step repeats its call with the same child key, which the
// service recognises. Here the carrier closes the connection of its first request without an answer, after it has
// taken the parcel.
//
//	go run ./examples/steps
//	curl -i 127.0.0.1:8080/checkouts -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
//
// The first answer is 502; send it again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run() error {
	store, err := sqlitestore.Open("shop.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	services := openBackends()
	defer services.close()
	server := &http.Server{
		Addr: "127.0.0.1:8080", Handler: services.shop().handler(guard),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), store.Close())
}

// handler guards the checkout. Rerun is safe, because every effect is a step with a child key. A 502 or a panic says
// that the outcome is unknown: the key is abandoned, and the 502 is not stored as the answer.
func (s *shop) handler(guard *retrysafe.Guard) http.Handler {
	checkouts := guard.With(retrysafe.Policy{OnAbandoned: retrysafe.Rerun()})
	safe := httpsafe.Middleware(checkouts, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /checkouts", safe(http.HandlerFunc(s.checkout)))
	return mux
}

func (s *shop) checkout(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Amount <= 0 {
		http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
		return
	}
	b, err := s.buy(r.Context(), o)
	switch {
	case errors.Is(err, errDeclined): // a definite answer: every retry gets the same one
		http.Error(w, err.Error(), http.StatusPaymentRequired)
	case err != nil:
		log.Printf("checkout interrupted: %v", err)
		http.Error(w, "the order is not finished; send it again", http.StatusBadGateway)
	default:
		answer(w, b)
	}
}

// buy reserves first, because a reservation without a payment expires by itself.
func (s *shop) buy(ctx context.Context, o order) (b bought, err error) {
	if b.Reservation, err = retrysafe.Step(ctx, "reserve", s.ask(s.stock, o)); err != nil {
		return b, err
	}
	if b.Charge, err = retrysafe.Step(ctx, "charge", s.ask(s.bank, o)); err != nil {
		return b, err
	}
	b.Parcel, err = retrysafe.Step(ctx, "ship", s.ask(s.carrier, o))
	return b, err
}
