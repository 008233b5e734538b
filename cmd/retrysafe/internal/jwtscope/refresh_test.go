package jwtscope

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// Seen to fail with the fetch for an unknown kid taken out, and with its pause taken out.
func TestKeysAreFetchedAnewWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		f := i.scope(Options{})
		old := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
		rotated := "Bearer " + sign(t, jwt.SigningMethodRS256, "new", i.another, i.claims(nil))
		ask(f, rotated)
		i.serve(i.jwk("new", &i.another.PublicKey))
		for range 50 { // too early to ask again
			if _, err := ask(f, rotated); err == nil {
				t.Fatal("an unknown key is accepted")
			}
		}
		want(t, "fetched", i.fetched.Load(), 2)
		time.Sleep(pauseBetween)
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				if _, err := ask(f, rotated); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		want(t, "fetched", i.fetched.Load(), 3)
		if _, err := ask(f, old); err == nil {
			t.Error("a withdrawn key is accepted")
		}
	})
}

// A token that is signed with a new key is good, or is not: while the set cannot be fetched, it is not called bad. Seen to
// fail with find returning the error of read: the client was told 401.
func TestNewKeysThatCannotBeFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		f := i.scope(Options{})
		rotated := "Bearer " + sign(t, jwt.SigningMethodRS256, "new", i.another, i.claims(nil))
		i.serve(i.jwk("new", &i.another.PublicKey))
		i.answer(500)
		for range 2 { // the second asks too early to fetch anew
			_, err := ask(f, rotated)
			if p := new(httpsafe.Problem); !errors.As(err, &p) || p.Status != 503 || p.RetryAfter != pauseBetween {
				t.Errorf("while the set cannot be fetched: %v", err)
			}
		}
		i.answer(200)
		time.Sleep(pauseBetween)
		if _, err := ask(f, rotated); err != nil {
			t.Errorf("when it can be fetched again: %v", err)
		}
		_, err := ask(f, "Bearer "+sign(t, jwt.SigningMethodRS256, "never", i.another, i.claims(nil)))
		if err == nil || errors.As(err, new(*httpsafe.Problem)) {
			t.Errorf("a key that is not in the set: %v", err)
		}
	})
}

// The context of a request ends also when its client has only closed its sending half. Seen to fail with find returning
// then: 401 for a good token.
func TestAHalfClosedClientGetsTheNewKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		f := i.scope(Options{})
		i.serve(i.jwk("new", &i.another.PublicKey))
		ctx, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
		r.Header.Set("Authorization", "Bearer "+sign(t, jwt.SigningMethodRS256, "new", i.another, i.claims(nil)))
		if _, err := f(r); err != nil {
			t.Error(err)
		}
	})
}

// A withdrawn key is refused although no request needs a new one. An answer without keys withdraws none.
//
// Seen to fail with the interval taken out, and with sets without keys accepted.
func TestWithdrawnKeysDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		f := i.scope(Options{})
		old := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
		i.serve()
		time.Sleep(refreshEvery + time.Second)
		if _, err := ask(f, old); err != nil {
			t.Errorf("after a set without keys: %v", err)
		}
		i.serve(i.jwk("new", &i.another.PublicKey))
		time.Sleep(refreshEvery)
		want(t, "fetched", i.fetched.Load(), 3)
		if _, err := ask(f, old); err == nil {
			t.Error("a withdrawn key is accepted")
		}
	})
}

// When the server cannot be reached, known keys serve on for a time, and no longer.
//
// Seen to fail with discardAfter taken out, and with FailedFunc told nothing.
func TestKeysOutliveTheirServerForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		var failures atomic.Int64
		f := i.scope(Options{FailedFunc: func(error) { failures.Add(1) }})
		lasting := i.claims(claims{"exp": time.Now().Add(100 * time.Hour).Unix()})
		token := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, lasting)
		i.answer(500)
		time.Sleep(discardAfter - time.Second)
		if _, err := ask(f, token); err != nil {
			t.Errorf("while the server is down: %v", err)
		}
		want(t, "failures told", failures.Load(), int64(discardAfter/refreshEvery)-1)
		time.Sleep(2 * time.Second)
		if _, err := ask(f, token); err == nil {
			t.Error("the keys serve for ever")
		}
		i.answer(200)
		time.Sleep(pauseBetween)
		if _, err := ask(f, token); err != nil {
			t.Errorf("when the server is back: %v", err)
		}
	})
}

// What keeps the keys up to date ends with its context, and at once if New fails: a bubble waits for what runs in it.
//
// Seen to fail with the library given another context, and with the stop after a failure taken out.
func TestNothingGoesOnAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		i.answer(500)
		if _, err := New(context.Background(), "https://login/jwks.json", Options{Transport: i}); err == nil {
			t.Error("it does without keys")
		}
		i.answer(200)
		ctx, stop := context.WithCancel(context.Background())
		if _, err := New(ctx, "https://login/jwks.json", Options{Transport: i}); err != nil {
			t.Error(err)
		}
		stop()
		time.Sleep(2 * refreshEvery)
		want(t, "fetched", i.fetched.Load(), 2)
	})
}
