//go:build linux

package matrix

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/outbox"
)

const inboxTable = "matrix_inbox"

// openInbox opens the database of an inbox: its dialect, a space, its URL.
func openInbox(place string) (*outbox.Outbox, *sql.DB, error) {
	dialect, url, _ := strings.Cut(place, " ")
	drivers := map[outbox.Dialect]string{outbox.PostgreSQL: "pgx", outbox.SQLite: "sqlite", outbox.MySQL: "mysql"}
	db, err := sql.Open(drivers[outbox.Dialect(dialect)], url)
	if err != nil {
		return nil, nil, err
	}
	box, err := outbox.New(db, outbox.Dialect(dialect), outbox.Options{Table: inboxTable})
	return box, db, err
}

// inboxOf returns a handler that accepts requests into an inbox, and delivers what it has. It has the work of a policy.
func (w *worker) inboxOf(policy string) (http.Handler, error) {
	g := w.guard(policy)
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.inboxes[policy]; h != nil {
		return h, nil
	}
	box, _, err := openInbox(w.place.Inbox)
	if err != nil {
		return nil, err
	}
	in := inbox.New(box, policy, inbox.Options{
		Idle: 20 * time.Millisecond, FirstDelay: 10 * time.Millisecond, MaxDelay: 100 * time.Millisecond,
	})
	scope := func(*http.Request) (string, error) { return "matrix", nil }
	h := httpsafe.Middleware(g, scope, httpsafe.Options{Inbox: in, StatusPath: "/status"})(w.service(policy))
	w.inboxes[policy] = h
	go func() { _ = in.Run(context.Background(), h) }()
	return h, nil
}

// service is the handler behind the inbox.
func (w *worker) service(policy string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		a, ok := retrysafe.AttemptFrom(r.Context())
		if !ok {
			panic("a delivery has no attempt")
		}
		o := order{ID: "delivery", Key: a.Key().ID, Policy: policy}
		answered := false
		o.respond = func(body string) {
			answered = true
			_, _ = io.WriteString(rw, body)
		}
		result, err := w.work(r.Context(), a, o)
		switch {
		case err != nil:
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		case !answered:
			o.respond(string(result.Body))
		}
	}
}

// post sends a request to the inbox until it is accepted.
func (w *worker) post(o order) {
	h, err := w.inboxOf(o.Policy)
	for err == nil {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"order": 1}`))
		r.Header.Set("Idempotency-Key", o.Key)
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if answer.Code == http.StatusAccepted {
			w.tell(event{Kind: "accepted", ID: o.ID, Key: o.Key})
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
	w.tell(event{Kind: "failed", Key: o.Key, Err: text(err)})
}

// look reads the record of a key until a delivery has ended it, or under Refuse has left it: an unknown outcome is not
// delivered again.
func (w *worker) look(o order) {
	e := event{Kind: "end", ID: o.ID, Key: o.Key}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		k := retrysafe.Key{Scope: "matrix", ID: o.Key}
		inspector, ok := retrysafe.As[retrysafe.Inspector](w.opened.store)
		if !ok {
			e.Err = "the store cannot be inspected"
			break
		}
		all, err := inspector.Inspect(context.Background(), k.Digest())
		if err == nil && len(all) > 0 && all[0].State.Ended() {
			e.Answered, e.Stored, e.Replayed, e.Body = true, true, true, string(all[0].Result.Body)
			break
		}
		left := err == nil && len(all) > 0 && all[0].State == retrysafe.Pending && all[0].LeaseLeft <= 0
		if left && o.Policy == refuse {
			e.Err = "the outcome is unknown"
			break
		}
		if time.Since(began) > patience {
			e.Err = errors.Join(errors.New("the request was accepted, and is not delivered"), err).Error()
			w.tell(event{Kind: "failed", Key: o.Key, Err: e.Err})
			break
		}
	}
	w.tell(e)
}
