package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// shop calls three services.
type shop struct {
	client               *http.Client
	stock, bank, carrier string // URLs
}

type order struct {
	Amount int64 `json:"amount"`
}

// bought is the answer of the shop: the IDs from the three services.
type bought struct {
	Reservation string `json:"reservation"`
	Charge      string `json:"charge"`
	Parcel      string `json:"parcel"`
}

var errDeclined = errors.New("the payment was declined")

// ask returns a step that sends the order to a service and sets the child key explicitly. An httpclient.Client does
// that by itself, and retries; see examples/checkout.
func (s *shop) ask(url string, o order) func(ctx context.Context, childKey string) (string, error) {
	return func(ctx context.Context, childKey string) (string, error) {
		body, err := json.Marshal(o)
		if err != nil {
			return "", err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", childKey)
		response, err := s.client.Do(r)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		switch response.StatusCode {
		case http.StatusCreated:
		case http.StatusPaymentRequired:
			return "", errDeclined
		default: // for example 409: the service still works on the previous attempt
			return "", fmt.Errorf("%s answered %s", url, response.Status)
		}
		var created struct{ ID string }
		if err := json.NewDecoder(response.Body).Decode(&created); err != nil {
			return "", fmt.Errorf("%s: %w", url, err)
		}
		return created.ID, nil
	}
}

// answer sends v with status 201.
func answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	w.Write(append(body, '\n'))
}
