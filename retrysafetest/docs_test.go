package retrysafetest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
)

// What follows is what docs/testing-your-handler.md shows.

// Payments is what the handler needs of the database.
type Payments interface {
	// InTx runs f in a transaction, and completes the key's attempt with it.
	InTx(ctx context.Context, f func(ctx context.Context) error) error
	Insert(ctx context.Context, amount int64) error
}

func newHandler(guard *retrysafe.Guard, payments Payments) http.Handler {
	safe := httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(pay(payments)))
	return mux
}

func pay(payments Payments) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int64 }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
			return
		}
		err := payments.InTx(r.Context(), func(ctx context.Context) error {
			if err := payments.Insert(ctx, order.Amount); err != nil {
				return err
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "{\"amount\":%d}\n", order.Amount)
			return nil
		})
		if err != nil { // nothing was saved
			w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
			http.Error(w, "nothing was paid; try again", http.StatusServiceUnavailable)
		}
	})
}

type txKey struct{}

// sqlPayments is for production. Its store is a *sqlitestore.Store.
type sqlPayments struct {
	store interface {
		InTx(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error
	}
}

func (p sqlPayments) InTx(ctx context.Context, f func(ctx context.Context) error) error {
	return p.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return f(context.WithValue(ctx, txKey{}, tx))
	})
}

func (p sqlPayments) Insert(ctx context.Context, amount int64) error {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	if !ok {
		return errors.New("Insert needs the context that InTx gives")
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO payments (amount) VALUES (?)", amount)
	return err
}

var _ Payments = sqlPayments{}

// fakePayments stands for the table.
type fakePayments struct {
	*retrysafetest.Store // has InTx
	rows                 []int64
}

func (p *fakePayments) Insert(ctx context.Context, amount int64) error {
	p.Apply(ctx, func() { p.rows = append(p.rows, amount) }) // with the commit of ctx's transaction
	return nil
}

func TestPay(t *testing.T) {
	store := retrysafetest.NewStore()
	payments := &fakePayments{Store: store}
	guard := retrysafe.New(store, retrysafe.Options{
		Policy: retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()},
	})
	retrysafetest.Check(t, retrysafetest.Subject{
		Guard:   guard,
		Handler: newHandler(guard, payments),
		NewRequest: func(key string) *http.Request {
			r := httptest.NewRequest("POST", "/payments", strings.NewReader(`{"amount":4200}`))
			r.Header.Set("Authorization", "Bearer alice")
			r.Header.Set("Idempotency-Key", key)
			return r
		},
		Effects: func() int { return len(payments.rows) },
	})
}

func TestCharge(t *testing.T) {
	store := retrysafetest.NewStore()
	payments := &fakePayments{Store: store}
	guard := retrysafe.New(store, retrysafe.Options{
		Policy: retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()},
	})
	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
	retrysafetest.CheckConsumer(t, retrysafetest.ConsumerSubject{
		Guard:    guard,
		Consumer: consumer,
		Handler: func(ctx context.Context, m queuesafe.Message) error {
			return payments.InTx(ctx, func(ctx context.Context) error {
				return payments.Insert(ctx, 4200)
			})
		},
		NewMessage: func(key string) queuesafe.Message { return queuesafe.Message{ID: key} },
		Effects:    func() int { return len(payments.rows) },
	})
}

func TestPayAfterADay(t *testing.T) {
	store := retrysafetest.NewStore()
	payments := &fakePayments{Store: store}
	handler := newHandler(retrysafe.New(store, retrysafe.Options{}), payments)
	send := func() {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(`{"amount":4200}`))
		r.Header.Set("Authorization", "Bearer alice")
		r.Header.Set("Idempotency-Key", "order-17")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	send()
	store.Advance(23 * time.Hour)
	send() // a replay
	store.Advance(2 * time.Hour)
	send() // the default retention is over: a new payment
	if len(payments.rows) != 2 {
		t.Errorf("%d payments, want 2", len(payments.rows))
	}
}

// This is the end of what the page shows.

// Each line of Go on the page stands in this file, in its order, and so compiles. Seen to fail with a word of the page
// changed.
func TestTheSnippetsOfThePage(t *testing.T) {
	this, err := os.ReadFile("docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(this), "// What follows")
	rest, _, _ = strings.Cut(rest, "// This is the end")
	snippets := strings.Split(page(t), "```go\n")[1:]
	if len(snippets) < 4 {
		t.Errorf("%d snippets, want at least 4", len(snippets))
	}
	for _, snippet := range snippets {
		code, _, _ := strings.Cut(snippet, "```")
		for line := range strings.Lines(code) {
			found := false
			if _, rest, found = strings.Cut(rest, "\n"+strings.TrimSuffix(line, "\n")+"\n"); !found {
				t.Fatalf("docs_test.go does not have, in its place: %s", line)
			}
			rest = "\n" + rest
		}
	}
}

// insertsOutside is the mistake that the page shows: it inserts with another context than that of the transaction.
type insertsOutside struct{ *fakePayments }

func (p insertsOutside) Insert(_ context.Context, amount int64) error {
	return p.fakePayments.Insert(context.Background(), amount)
}

// The page shows what Check says of the mistake. Seen to fail with a word of it changed.
func TestTheFailureOfThePage(t *testing.T) {
	store := retrysafetest.NewStore()
	payments := &fakePayments{Store: store}
	guard := retrysafe.New(store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()}})
	r := &recorder{TB: t}
	retrysafetest.Check(r, retrysafetest.Subject{
		Guard: guard, Handler: newHandler(guard, insertsOutside{payments}), Effects: func() int { return len(payments.rows) },
		NewRequest: func(key string) *http.Request {
			r := request(key)
			r.URL.Path = "/payments"
			return r
		},
	})
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if len(r.failures) != 1 || !strings.Contains(words(page(t)), words(r.failures[0])) {
		t.Errorf("the page does not show what Check says: %q", r.failures)
	}
}

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/testing-your-handler.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
