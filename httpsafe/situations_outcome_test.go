package httpsafe_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// abandon leaves key k abandoned.
func (k *kit) abandon() {
	k.Helper()
	k.abandonKey("k")
}

// abandonKey leaves a key abandoned, whatever its age.
func (k *kit) abandonKey(key string) {
	k.Helper()
	before := newKit(k.T)
	before.store = k.store
	before.handler = func(w http.ResponseWriter, r *http.Request) {
		k.ran.Add(1)
		httpsafe.Unknown(r.Context())
	}
	before.post(key).want(200).wantState("unknown")
	k.once.Do(k.build)
}

func s13(k *kit) {
	k.abandon()
	for range 3 {
		p := k.post("k").wantHeader("Idempotent-Replayed", "").wantState("unknown").wantProblem(500, httpsafe.OutcomeUnknown)
		instance, _ := p["instance"].(string)
		if p["executed"] != "unknown" || !strings.HasPrefix(instance, "urn:retrysafe:key:") ||
			!strings.Contains(p["detail"].(string), "support") {
			k.Errorf("problem %v", p)
		}
		k.pass(time.Hour)
	}
	k.wantRuns(1)
}

func s14(k *kit) {
	k.policy.OnAbandoned = retrysafe.Rerun()
	k.options.MaxKeyAge = time.Hour // of which there is a record, however old it is
	k.abandonKey(oldKey)
	k.post(oldKey).want(201).wantState("executed; attempt=2; exp=@EXP")
	k.wantRuns(2)
}

func s15(k *kit) {
	k.store.fail(errDown, nil)
	p := k.post("k").wantProblem(503, httpsafe.StoreUnavailable)
	if p["executed"] != "no" || p["retryable"] != true {
		k.Errorf("problem %v", p)
	}
	k.store.fail(retrysafe.ErrStoreFull, nil)
	k.post("k").wantHeader("Retry-After", "1").wantProblem(503, httpsafe.StoreUnavailable)
	k.wantRuns(0)
	k.store.fail(nil, nil)

	open := newKit(k.T)
	open.policy.OnStoreError = retrysafe.FailOpen
	open.store.fail(errDown, nil)
	open.post("k").want(201).wantState("ignored")
	open.wantRuns(1)
}

func s16(k *kit) {
	k.policy.HoldUnsaved = -1
	k.store.fail(nil, errDown)
	k.post("k").want(201).wantBody(`{"paid":17}`).wantState("executed; stored=?0")
	k.post("k").want(201).wantBody(`{"paid":17}`).wantState("replayed; stored=?0")
	k.post("k", body("18")).wantProblem(422, httpsafe.KeyReused)
	k.store.fail(nil, nil)
	if err := k.guard.Shutdown(context.Background()); err != nil {
		k.Fatal(err)
	}
	later := newKit(k.T)
	later.store = k.store
	later.post("k").want(201).wantBody(`{"paid":17}`).wantState("replayed; exp=@EXP")
	k.wantRuns(1)
	later.wantRuns(0)

	// A profile without the status names it all the same. Seen to fail with either condition on Stored taken out.
	silent := newKit(k.T)
	silent.policy.HoldUnsaved, silent.options.Profile = -1, httpsafe.Stripe()
	silent.store.fail(nil, errDown)
	silent.post("k").want(201).wantHeader("Idempotency-Status", "executed; stored=?0")
	silent.post("k").want(201).wantHeader("Idempotency-Status", "replayed; stored=?0")
	silent.store.fail(nil, nil)
	if err := silent.guard.Shutdown(context.Background()); err != nil {
		k.Fatal(err)
	}
	silent.post("k2").want(503)
}

func s17(k *kit) {
	inner := k.handler
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusServiceUnavailable)
	}
	k.post("k").want(503).wantBody("later\n").wantState("released")
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		if err := httpsafe.Release(r.Context()); err != nil {
			k.Error(err)
		}
		w.WriteHeader(http.StatusConflict)
	}
	k.post("k").want(409).wantState("released")
	k.handler = inner
	k.post("k", body("another request")).want(201)
	k.wantRuns(3)
}

func s18(k *kit) {
	k.handler = func(w http.ResponseWriter, r *http.Request) { panic("broken") }
	wantPanic(k, "broken", func() { k.post("k") })
	k.post("k").wantState("unknown").wantProblem(500, httpsafe.OutcomeUnknown)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic(http.ErrAbortHandler)
	}
	wantPanic(k, http.ErrAbortHandler, func() { k.post("aborted") })
	k.post("aborted").wantState("unknown").wantProblem(500, httpsafe.OutcomeUnknown)
	k.wantRuns(2)

	// Seen to fail with the panic saved as a final failure.
	rerun := newKit(k.T)
	rerun.policy.OnAbandoned = retrysafe.Rerun()
	handler := rerun.handler
	rerun.handler = func(w http.ResponseWriter, r *http.Request) { panic("broken") }
	wantPanic(rerun, "broken", func() { rerun.post("k") })
	rerun.handler = handler
	rerun.post("k").want(201).wantState("executed; attempt=2; exp=@EXP")
	rerun.wantRuns(2)
}

func wantPanic(k *kit, want any, f func()) {
	k.Helper()
	defer func() {
		if got := recover(); got != want {
			k.Errorf("panic %v, want %v", got, want)
		}
	}()
	f()
}

func s19(k *kit) {
	ctx, hangUp := context.WithCancel(context.Background())
	inner := k.handler
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		hangUp()
		if err := r.Context().Err(); err != nil {
			k.Errorf("the handler's context ended with the client's: %v", err)
		}
		inner(w, r)
	}
	first := k.send(request("k").WithContext(ctx))
	k.post("k").wantReplayOf(first)
	k.wantRuns(1)
}

func s20(k *kit) {
	k.options.MaxRequestBody = 10
	p := k.post("k", body("01234567890")).wantProblem(413, httpsafe.BodyTooLarge)
	if p["max_bytes"] != 10.0 || p["executed"] != "no" {
		k.Errorf("problem %v", p)
	}
	unread := func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(errors.New("the body was read"))) }
	k.post("k", body("01234567890"), unread).wantProblem(413, httpsafe.BodyTooLarge)
	unannounced := func(r *http.Request) { r.ContentLength = -1 }
	k.post("k", body("01234567890"), unannounced).wantProblem(413, httpsafe.BodyTooLarge)
	k.post("k", body("0123456789"), unannounced).want(201)
	k.wantRuns(1)
}

func s21(k *kit) {
	k.post("k", header("Early-Data", "1")).wantProblem(425, httpsafe.EarlyData)
	k.wantRuns(0)
	k.post("k").wantState("executed; exp=@EXP")

	allowing := newKit(k.T)
	allowing.options.Profile.AllowEarlyData = true
	allowing.post("k", header("Early-Data", "1")).want(201)
}

func s22(k *kit) {
	k.post("k", header("Caller")).wantHeader("WWW-Authenticate", "Bearer").wantProblem(401, httpsafe.ScopeUnresolved)
	k.wantRuns(0)
}

func s23(k *kit) {
	k.options.Profile.RejectUnsupported = true
	k.post("k", method("PUT")).wantProblem(501, httpsafe.NotSupported)
	k.wantRuns(0)
	k.post("", method("PUT")).want(201)
	k.post("k", method("GET")).want(201).wantState("ignored")
}

func s24(k *kit) {
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one ")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "two")
	}
	k.post("k").want(200).wantBody("one two").wantState("executed")
	k.post("k").want(200).wantBody("").wantState("replayed; body=?0; exp=@EXP")
	k.wantRuns(1)

	buffering := newKit(k.T)
	buffering.handler, buffering.options.BufferFlushes = k.handler, true
	first := buffering.post("k").wantBody("one two")
	buffering.post("k").wantReplayOf(first)
}

func s25(k *kit) {
	broken := func(r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("1"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	k.post("k", broken).wantProblem(400, httpsafe.BodyUnreadable)
	k.wantRuns(0)
	k.post("k", body("any")).wantState("executed; exp=@EXP")
}

func s26(k *kit) {
	k.options.QuotaFunc = func(r *http.Request, scope string) time.Duration {
		if scope != "alice" {
			return 0
		}
		return 90 * time.Second
	}
	k.store.fail(errDown, nil)
	k.post("k").wantHeader("Retry-After", "90").wantProblem(429, httpsafe.KeyQuota)
	k.store.fail(nil, nil)
	k.post("k", header("Caller", "bob")).want(201)
	k.wantRuns(1)
}

// A refusal because of a key names the key's page, if there are such pages. Seen to fail without KeyPages in Instance.
func TestInstanceOfAKeyWithAPage(t *testing.T) {
	k := newKit(t)
	k.options.KeyPages = "https://ops.example/keys/"
	k.abandon()
	p := k.post("k").wantProblem(500, httpsafe.OutcomeUnknown)
	found, err := k.store.List(t.Context(), retrysafe.ListParams{})
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v", found, err)
	}
	if want := "https://ops.example/keys/" + found[0].Key.String(); p["instance"] != want {
		t.Errorf("instance: got %v, want %v", p["instance"], want)
	}
}
