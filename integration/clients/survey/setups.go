package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stripe/stripe-go/v85"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
)

// row is a set-up of a client. The others are in clients.mjs and clients.py.
type row struct{ setup, title string }

func rows() []row {
	return []row{
		{"stripe-go", "stripe-go v85.0.0"},
		{"stripe-node", "stripe-node 23.1.0"},
		{"fetch", "fetch (Node 20)"},
		{"axios", "axios 1.21.1"},
		{"axios-retry", "axios-retry 4.5.0"},
		{"axios-retry-set", "axios-retry, with a `retryCondition`"},
		{"got", "got 14.6.5"},
		{"got-set", "got, with `methods` and `statusCodes`"},
		{"ky", "ky 1.14.3"},
		{"ky-set", "ky, with `methods` and `statusCodes`"},
		{"undici", "undici 7.30.2, `RetryAgent`"},
		{"undici-set", "undici, with `methods` and `statusCodes`"},
		{"net-http", "Go net/http 1.26"},
		{"retryablehttp", "go-retryablehttp 0.7.8"},
		{"retryablehttp-set", "go-retryablehttp, with a `CheckRetry`"},
		{"failsafe", "failsafe-go 0.9.8"},
		{"failsafe-set", "failsafe-go, with `HandleIf`"},
		{"urllib3", "urllib3 1.26.12"},
		{"urllib3-set", "urllib3, with `allowed_methods` and `status_forcelist`"},
		{"curl", "curl 7.88.1"},
		{"curl --retry", "curl `--retry 3`"},
		{"curl --retry-all-errors", "curl `--retry 3 --retry-all-errors --fail`"},
		{"httpsafe", "`httpclient.Transport`"},
	}
}

// doer sends a request.
type doer func(r *http.Request) (*http.Response, error)

// sendByGo sends with each of Go's clients in each situation, all at once.
func sendByGo(ctx context.Context, url string) {
	var all sync.WaitGroup
	for _, situation := range names() {
		all.Go(func() { sendByStripe(ctx, url, situation) })
		for setup, do := range goClients() {
			all.Go(func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", strings.NewReader("amount=1700"))
				if err != nil {
					panic(err)
				}
				r.Header.Set("Idempotency-Key", key(setup, situation))
				if response, err := do(r); err == nil { // what it did is seen by the server
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			})
		}
	}
	all.Wait()
}

func sendByStripe(ctx context.Context, url, situation string) {
	config := &stripe.BackendConfig{
		URL:           stripe.String(url),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull}, HTTPClient: fresh(),
	}
	client := stripe.NewClient("sk_test_survey", stripe.WithBackends(stripe.NewBackendsWithConfig(config)))
	params := &stripe.ChargeCreateParams{Amount: stripe.Int64(1700), Currency: stripe.String("eur")}
	params.SetIdempotencyKey(key("stripe-go", situation))
	_, _ = client.V1Charges.Create(ctx, params)
}

// fresh returns a client without connections.
func fresh() *http.Client {
	return &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
}

func goClients() map[string]doer {
	retries409 := func(ctx context.Context, response *http.Response, err error) (bool, error) {
		if err == nil && response.StatusCode == http.StatusConflict {
			return true, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, response, err)
	}
	retryable := func(check retryablehttp.CheckRetry) doer {
		client := retryablehttp.NewClient()
		client.HTTPClient, client.Logger, client.CheckRetry = fresh(), nil, check
		return client.StandardClient().Do
	}
	failsafe := func(too func(*http.Response, error) bool) doer {
		policy := failsafehttp.NewRetryPolicyBuilder() //nolint:bodyclose // there is no response here
		if too != nil {
			policy = policy.HandleIf(too) //nolint:bodyclose // nor here
		}
		transport := failsafehttp.NewRoundTripper(fresh().Transport, policy.Build()) //nolint:bodyclose // nor here
		return (&http.Client{Transport: transport}).Do
	}
	ours := httpclient.NewTransport(httpclient.Options{
		Options: client.Options{Budget: client.RetryBudget{Tokens: -1}},
		Profile: httpkey.Stripe(),
		Base:    fresh().Transport,
	})
	return map[string]doer{
		"net-http":          fresh().Do,
		"retryablehttp":     retryable(retryablehttp.DefaultRetryPolicy),
		"retryablehttp-set": retryable(retries409),
		"failsafe":          failsafe(nil),
		"failsafe-set": failsafe(func(r *http.Response, err error) bool {
			return err == nil &&
				r.StatusCode == http.StatusConflict
		}),
		"httpsafe": (&http.Client{Transport: ours}).Do,
	}
}
