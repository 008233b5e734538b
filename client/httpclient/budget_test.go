package httpclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe/client/httpclient"
)

// Seen to fail with the budget taken out of mayRetry.
func TestRetriesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &script{answers: []answerFunc{lost}}
		transport := newTransport(t, httpclient.TransportOptions{Base: base})
		send := func(url string) error {
			response, err := transport.RoundTrip(chargeAt(t.Context(), url))
			if err == nil {
				response.Body.Close()
			}
			return err
		}
		wantUnknown(t, send("https://bank.example/charges"), httpclient.GaveUpAttempts) // 10 tokens, 6 left
		for range 5 {
			wantUnknown(t, send("https://bank.example/charges"), httpclient.GaveUpBudget)
		}
		if len(base.sent) != 9 {
			t.Errorf("sent %d times, want 4 and 5", len(base.sent))
		}
		wantUnknown(t, send("https://other.example/charges"), httpclient.GaveUpAttempts)
		base.answers = []answerFunc{reply(201)}
		for range 43 { // 1 + 4.3 tokens
			if err := send("https://bank.example/charges"); err != nil {
				t.Fatal(err)
			}
		}
		base.answers = []answerFunc{lost}
		wantUnknown(t, send("https://bank.example/charges"), httpclient.GaveUpBudget)
		base.answers = []answerFunc{reply(201)}
		for range 20 { // 4.3 + 2 tokens
			send("https://bank.example/charges")
		}
		base.answers = []answerFunc{lost, reply(201)}
		if err := send("https://bank.example/charges"); err != nil {
			t.Errorf("with tokens again: %v", err)
		}
	})
}

// Seen to fail with the deletion taken out of succeeded, and with makeRoom taken out of failed.
func TestBudgetsOfOriginsAreNotKeptForGood(t *testing.T) {
	status := http.StatusServiceUnavailable
	base := answerFunc(func(r *http.Request) (*http.Response, error) { return reply(status)(r) })
	transport := newTransport(t, httpclient.TransportOptions{Base: base, Attempts: 1, Budget: httpclient.RetryBudget{PerSuccess: 1}})
	send := func(origin string, answer int) {
		status = answer
		if response, err := transport.RoundTrip(chargeAt(t.Context(), origin)); err == nil {
			response.Body.Close()
		}
	}
	for i := range 100 {
		send(fmt.Sprintf("https://%d.example", i), 503)
	}
	if n := httpclient.Budgets(transport); n != 100 {
		t.Errorf("%d budgets of 100 origins that fail", n)
	}
	for i := range 99 {
		send(fmt.Sprintf("https://%d.example", i), 201)
	}
	if n := httpclient.Budgets(transport); n != 1 {
		t.Errorf("%d budgets, and one origin that still fails", n)
	}
	for i := range 20_000 {
		send(fmt.Sprintf("https://%d.example", i), 503)
	}
	if n := httpclient.Budgets(transport); n > 10_000 {
		t.Errorf("%d budgets", n)
	}
}
