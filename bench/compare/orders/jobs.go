package orders

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Job is an order as work for a queue or a workflow engine: the path that was called, and the order.
type Job struct {
	Path  string `json:"path"`
	Order Order  `json:"order"`
}

// Answer is what a job has come to.
type Answer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// Do does a job.
func (a API) Do(j Job) (Answer, error) {
	switch j.Path {
	case "/orders/failing":
		return Refusal(http.StatusPaymentRequired, "no money"), nil
	case "/orders/broken":
		return Refusal(http.StatusInternalServerError, "broken"), nil
	case "/orders/slow":
		time.Sleep(Slowness)
	}
	made, err := a.Create(j.Order)
	if err != nil {
		return Answer{}, err
	}
	if j.Path == "/orders/large" {
		made.Lines = LargeLines()
	}
	body, err := json.Marshal(made)
	return Answer{Status: http.StatusCreated, Body: body}, err
}

// Refusal is an answer that says why there is no order.
func Refusal(status int, why string) Answer {
	body, _ := json.Marshal(map[string]string{"error": why})
	return Answer{Status: status, Body: body}
}

// patience is how long a caller waits for a job.
const patience = 5 * time.Second

// Submit gives a job to an engine under a key and returns what it came to, now or when it was first submitted.
type Submit func(ctx context.Context, key string, j Job) (Answer, error)

// Jobs returns the API of a service that has an engine do its work: each POST is a job, and the key of the request is
// the engine's ID of the job. A request without a key gets a random one. A caller whose job is not done after some
// seconds is told to come again. An error of submit is answered with 500.
func (a API) Jobs(submit Submit) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", a.Tell("orders"))
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		j := Job{Path: r.URL.Path}
		if err := json.NewDecoder(r.Body).Decode(&j.Order); err != nil {
			refuse(http.StatusBadRequest, "that is not JSON")(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		got, err := submit(ctx, cmp.Or(r.Header.Get("Idempotency-Key"), rand.Text()), j)
		if errors.Is(err, context.DeadlineExceeded) {
			w.Header().Set("Retry-After", "1")
			got = Refusal(http.StatusConflict, "in progress")
		} else if err != nil {
			got = Refusal(http.StatusInternalServerError, err.Error())
		}
		var made Created
		if json.Unmarshal(got.Body, &made) == nil && made.ID != "" {
			w.Header().Set("Location", "/orders/"+made.ID)
		}
		answer(w, got.Status, got.Body)
	})
	return mux
}
