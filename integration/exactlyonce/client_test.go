//go:build unix

package exactlyonce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// answer is what a client got in the end.
type answer struct {
	code              int
	contentType, body string
	// unknown says that the client was told that the outcome is unknown, and that it must not retry.
	unknown bool
}

// attemptTimeout is how long a client waits for an answer before it sends its request again.
var attemptTimeout = 2 * timeout

// patience is how long it does so.
const patience = 4 * time.Minute

// Each request has a connection of its own, because each process of a service serves one.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// charge sends an order with its key, first to the first URL, until it has a final answer.
// wait is how long it waits for the first answer. It waits longer for later ones, and pauses longer before each: a
// request starts a process, and on a machine that is too slow for them more requests would leave less for each.
// With leaves, an answer 202 is the end too: the client never asks again. prefer is what Prefer says.
func charge(
	ctx context.Context, order string, wait time.Duration, leaves bool, prefer string, urls ...func() string,
) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for try := 0; ; try++ {
		again, last := time.Duration(0), err
		slower := min(try, 4)
		a, again, err = attempt(ctx, order, wait<<slower, urls[try%len(urls)](), prefer)
		switch {
		case ctx.Err() != nil:
			return a, fmt.Errorf("order %s has no final answer after %d attempts: %w", order, try, last)
		case err == nil && again == 0:
			return a, nil
		case err == nil && a.code == http.StatusAccepted && leaves:
			return a, nil
		case err == nil:
			err = fmt.Errorf("%d %s", a.code, a.body)
		}
		select {
		case <-time.After(max(again, rand.N(20*time.Millisecond<<min(try, 10)))):
		case <-ctx.Done():
		}
	}
}

// body returns the body of an order. What orders have in common that are delivered one after the other comes before a
// slash in their names.
func body(order string) string {
	aggregate, _, _ := strings.Cut(order, "/")
	return `{"order": "` + order + `", "aggregate": "` + aggregate + `"}`
}

// attempt sends an order once. again is how long to wait before the next attempt; 0 if the answer is final.
func attempt(
	ctx context.Context, order string, wait time.Duration, url, prefer string,
) (a answer, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/charges",
		strings.NewReader(body(order)))
	if err != nil {
		return a, 0, err
	}
	request.Header.Set("Authorization", "Bearer buyer")
	request.Header.Set("Idempotency-Key", order)
	request.Header.Set("Content-Type", "application/json")
	if prefer != "" {
		request.Header.Set("Prefer", prefer)
	}
	response, err := client.Do(request)
	if err != nil {
		return a, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return a, 0, err
	}
	for name := range response.Header {
		if strings.HasPrefix(name, "Retrysafe-") {
			return a, 0, errors.New("the answer has the header " + name)
		}
	}
	a = answer{code: response.StatusCode, contentType: response.Header.Get("Content-Type"), body: string(body)}
	switch {
	case response.StatusCode == http.StatusAccepted:
		return a, 20 * time.Millisecond, nil
	case response.StatusCode < 300:
		return a, 0, nil
	}
	var problem struct {
		Code         string
		Retryable    bool
		RetryAfterMS int64 `json:"retry_after_ms"`
	}
	_ = json.NewDecoder(bytes.NewReader(body)).Decode(&problem) // it may have another form
	if problem.Code == "outcome-unknown" && !problem.Retryable {
		a.unknown = true
		return a, 0, nil
	}
	again = time.Duration(problem.RetryAfterMS) * time.Millisecond
	return a, min(max(again, 20*time.Millisecond), lease), nil
}
