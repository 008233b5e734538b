package httpsafe_test

import (
	"context"
	"errors"
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

// The scope is the caller's identity, which authentication has put into the context: it stays the same when a token is
// refreshed between two attempts.
func ExampleScopeFunc() {
	type userKey struct{}
	callerOf := func(r *http.Request) (string, error) {
		user, ok := r.Context().Value(userKey{}).(string)
		if !ok {
			return "", errors.New("not authenticated")
		}
		return user, nil
	}
	authenticate := func(next http.Handler) http.Handler {
		users := map[string]string{"Bearer t1": "alice", "Bearer t2": "alice"} // a real service verifies tokens
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, ok := users[r.Header.Get("Authorization")]
			if !ok {
				http.Error(w, "a valid token is needed", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		})
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	safe := httpsafe.Middleware(guard, callerOf, httpsafe.Options{})
	api := authenticate(safe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "paid")
	})))

	for _, token := range []string{"t1", "t2", "forged"} {
		r := httptest.NewRequest(http.MethodPost, "/payments", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Idempotency-Key", "order-17")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Printf("%d, replayed: %q\n", w.Code, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 200, replayed: ""
	// 200, replayed: "true"
	// 401, replayed: ""
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
		options.Rules("POST /charges", guard.Policy()),
	))

	r := httptest.NewRequest(http.MethodGet, "/.well-known/idempotency-policy", nil)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 application/json
}
