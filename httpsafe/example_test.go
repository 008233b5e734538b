package httpsafe_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func ExampleMiddleware() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	safe := httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})

	charges := 0
	mux := http.NewServeMux()
	mux.Handle("POST /charges", safe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	})))
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 2 {
		r, _ := http.NewRequest(http.MethodPost, server.URL+"/charges", strings.NewReader(`{"amount":1700}`))
		r.Header.Set("Authorization", "Bearer alice")
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Printf("%d %s, replayed: %q\n", response.StatusCode, text, response.Header.Get("Idempotent-Replayed"))
	}
	// Output:
	// 201 charge 1, replayed: ""
	// 201 charge 1, replayed: "true"
}

func ExampleRelease() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	safe := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{})
	bookings := safe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// No seat was taken, so the same key may try again later.
		httpsafe.Release(r.Context())
		http.Error(w, "sold out", http.StatusConflict)
	}))

	r := httptest.NewRequest(http.MethodPost, "/bookings", nil)
	r.Header.Set("Idempotency-Key", "b-17")
	w := httptest.NewRecorder()
	bookings.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Idempotency-Status"))
	// Output: 409 released
}

func ExamplePolicyPage() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	options := httpsafe.Options{PolicyURL: "https://api.example.com/.well-known/idempotency-policy"}
	mux := http.NewServeMux()
	mux.Handle("GET /.well-known/idempotency-policy", httpsafe.PolicyPage(
		httpsafe.RoutePolicy{Pattern: "POST /charges", Guard: guard, Options: options},
	))

	r := httptest.NewRequest(http.MethodGet, "/.well-known/idempotency-policy", nil)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 application/json
}
