package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

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

// callerKey is the context key under which authenticate stores the caller.
type callerKey struct{}

// callerOf returns the scope: the caller's identity, which stays the same when the token is renewed.
func callerOf(r *http.Request) (string, error) {
	name, ok := r.Context().Value(callerKey{}).(string)
	if !ok {
		return "", errors.New("the request has not been authenticated")
	}
	return name, nil
}

// authenticate accepts the callers that know the token. Here there is one, the shop; a real service identifies the
// caller.
func authenticate(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		if token == "" || subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+token)) != 1 {
			http.Error(w, "a valid token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, "shop")))
	})
}
