// Command ownstore wraps a store in a store that encrypts the answers. Its test shows how to test your own store with
// stores/storetest, like the stores of this repository.
//
//	ANSWERS_SECRET=$(openssl rand -hex 32) go run ./examples/ownstore
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
//	grep -ac charge payments.db*   # 0: the file does not show the answer
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func main() {
	if err := run(os.Getenv("ANSWERS_SECRET")); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run(secretHex string) error {
	secret, err := hex.DecodeString(secretHex)
	if err != nil {
		return fmt.Errorf("ANSWERS_SECRET: %w", err)
	}
	file, err := sqlitestore.Open("payments.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	store, err := newSealed(file, secret)
	if err != nil {
		return errors.Join(fmt.Errorf("ANSWERS_SECRET: %w", err), file.Close())
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{
		Addr:              "127.0.0.1:8080",
		Handler:           handler(guard, new(bank)),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), file.Close())
}

func handler(guard *retrysafe.Guard, b *bank) http.Handler {
	safe := httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(http.HandlerFunc(b.pay)))
	return mux
}

// bank counts the charges.
type bank struct{ charges atomic.Int64 }

// pay runs once for each key, however often the client retries.
func (b *bank) pay(w http.ResponseWriter, r *http.Request) {
	var order struct{ Amount int64 }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
		http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
		return
	}
	b.charges.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"charge\":%q,\"amount\":%d}\n", rand.Text(), order.Amount)
}
