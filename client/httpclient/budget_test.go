package httpclient_test

import (
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
)

// Seen to fail with the budget taken out of mayRetry.
func TestRetriesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &script{answers: []answerFunc{lost}}
		transport := newTransport(t, httpclient.Options{Base: base})
		send := func(url string) error {
			response, err := transport.RoundTrip(chargeAt(t.Context(), url))
			if err == nil {
				response.Body.Close()
			}
			return err
		}
		wantUnknown(t, send("https://bank.example/charges"), client.GaveUpAttempts) // 10 tokens, 6 left
		for range 5 {
			wantUnknown(t, send("https://bank.example/charges"), client.GaveUpBudget)
		}
		if len(base.sent) != 9 {
			t.Errorf("sent %d times, want 4 and 5", len(base.sent))
		}
		wantUnknown(t, send("https://other.example/charges"), client.GaveUpAttempts)
		base.answers = []answerFunc{reply(201)}
		for range 43 { // 1 + 4.3 tokens
			if err := send("https://bank.example/charges"); err != nil {
				t.Fatal(err)
			}
		}
		base.answers = []answerFunc{lost}
		wantUnknown(t, send("https://bank.example/charges"), client.GaveUpBudget)
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
