package httpsafe_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An API that runs without keys is observed: its handler runs for each request, as before, and a page says how many of
// them were retries.
func ExampleObserve() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	seen := httpsafe.NewObservation(guard, httpsafe.ObservationOptions{})
	defer seen.Shutdown(context.Background())
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		amount, _ := io.ReadAll(r.Body)
		fmt.Printf("charged %s\n", amount)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /charges", httpsafe.Observe(seen, httpsafe.ScopeNone(), httpsafe.Options{})(charge))
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		for _, c := range seen.Counts() {
			fmt.Fprintf(w, "%s: %d of %d were retries, %d ran twice at the same time\n", c.Route,
				c.Observed[httpsafe.ObservedRetry], c.Requests(), c.Observed[httpsafe.ObservedConcurrent])
		}
	})
	for range 2 {
		r := httptest.NewRequest("POST", "/charges", strings.NewReader("17.00"))
		r.Header.Set("Idempotency-Key", "order-17")
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// charged 17.00
	// charged 17.00
}

// A client that crashed asks what became of its key, and does not send the request again.
func ExampleKeyStatusHandler() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	defer guard.Shutdown(context.Background())
	scope, options := httpsafe.ScopeNone(), httpsafe.Options{}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", httpsafe.Middleware(guard, scope, options)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated) })))
	mux.Handle("/.well-known/idempotency/{key...}", httpsafe.KeyStatusHandler(guard, scope, options))

	r := httptest.NewRequest("POST", "/charges", strings.NewReader("amount=1700"))
	r.Header.Set("Idempotency-Key", "order-17")
	mux.ServeHTTP(httptest.NewRecorder(), r)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/.well-known/idempotency/order-17", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"state":"succeeded","executed":"yes","next":"do-not-repeat"`))
	// Output: 200 true
}
