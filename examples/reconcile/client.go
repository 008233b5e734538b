package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// charge is the message between the shop and the bank.
type charge struct {
	ID        string `json:"id,omitempty"`
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

// receipt returns the answer for the shop's customers.
func (c charge) receipt() []byte {
	return fmt.Appendf(nil, "{\"charge\":%q,\"amount\":%d}\n", c.ID, c.Amount)
}

// bankClient calls the bank at url.
type bankClient struct {
	http *http.Client
	url  string
}

// charge makes a charge. After an error it is unknown whether the charge was made.
func (b *bankClient) charge(ctx context.Context, c charge) (charge, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return c, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/charges", bytes.NewReader(body))
	if err != nil {
		return c, err
	}
	r.Header.Set("Content-Type", "application/json")
	err = b.do(r, http.StatusCreated, &c)
	return c, err
}

// find looks a charge up by its reference.
func (b *bankClient) find(ctx context.Context, reference string) (c charge, found bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/charges/"+url.PathEscape(reference), nil)
	if err != nil {
		return c, false, err
	}
	err = b.do(r, http.StatusOK, &c)
	if errors.Is(err, statusError(http.StatusNotFound)) {
		return c, false, nil
	}
	return c, err == nil, err
}

// statusError is an unexpected status of the bank's answer.
type statusError int

func (s statusError) Error() string { return "the bank answered " + http.StatusText(int(s)) }

func (b *bankClient) do(r *http.Request, want int, answer *charge) error {
	response, err := b.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return statusError(response.StatusCode)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
