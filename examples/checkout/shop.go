package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// shop takes orders and calls the three services.
type shop struct {
	client *httpclient.Client
	urls   addresses
}

type order struct {
	Order  string `json:"order"`
	Amount int64  `json:"amount"` // in cents
}

// bought is the answer of the shop: the IDs from the three services.
type bought struct {
	Order       string `json:"order"`
	Reservation string `json:"reservation"`
	Charge      string `json:"charge"`
	Mail        string `json:"mail"`
}

// newShop returns the guarded handler of the shop. A 502 says that the outcome is unknown: it abandons the key
// instead of being stored as the answer, and the next request continues from the saved steps (Rerun). The middleware
// tells the buyer's client to retry.
func newShop(p *server, urls addresses) (http.Handler, error) {
	options := retries(2)
	options.RequireKey = true // each call must have the context of its attempt
	client := httpclient.New(options)
	safe := httpsafe.Middleware(p.guard.With(policy()), httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /checkouts", safe(http.HandlerFunc((&shop{client, urls}).checkout)))
	return mux, nil
}

func (s *shop) checkout(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Order == "" || o.Amount <= 0 {
		http.Error(w, "an order needs a number and a positive amount in cents", http.StatusBadRequest)
		return
	}
	b, err := s.buy(r.Context(), o)
	if err != nil {
		log.Printf("%s is not finished: %v", o.Order, err)
		http.Error(w, "the order is not finished; send it again", http.StatusBadGateway)
		return
	}
	created(w, b)
}

// buy reserves first, because a reservation without a charge expires by itself. The mail is last, because it cannot
// be undone.
func (s *shop) buy(ctx context.Context, o order) (b bought, err error) {
	b.Order = o.Order
	if b.Reservation, err = s.step(ctx, "reserve", *s.urls["stock"], o); err != nil {
		return b, err
	}
	if b.Charge, err = s.step(ctx, "charge", *s.urls["bank"], o); err != nil {
		return b, err
	}
	b.Mail, err = s.step(ctx, "notify", *s.urls["mail"], o)
	return b, err
}

// step calls one service as a step, whose answer is saved before the next step begins. The client sends the step's
// child key by itself.
func (s *shop) step(ctx context.Context, name, url string, o order) (string, error) {
	return retrysafe.Step(ctx, name, func(ctx context.Context, _ string) (string, error) {
		faults.Boundary("shop-before-" + name)
		return s.ask(ctx, url, o)
	})
}

// ask sends the order to a service, and returns the ID of the effect.
func (s *shop) ask(ctx context.Context, url string, o order) (string, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(ctx, r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("%s answered %s", url, response.Status)
	}
	var made struct{ ID string }
	if err := json.NewDecoder(response.Body).Decode(&made); err != nil {
		return "", fmt.Errorf("%s: %w", url, err)
	}
	return made.ID, nil
}

// created answers with v and status 201.
func created(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	w.Write(append(body, '\n'))
}
