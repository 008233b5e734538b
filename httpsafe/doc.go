// Package httpsafe makes net/http handlers safe to retry: a request with an idempotency key runs its handler at most
// once, and every retry gets the same response, byte for byte.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	safe := httpsafe.Middleware(guard, callerOf, httpsafe.Options{})
//	mux.Handle("POST /payments", authenticate(safe(pay)))
//
// callerOf is a [ScopeFunc]: it returns the caller of a request, as authentication has put it into the context.
//
// The rules are the Guard's, and this package adds none. It finds the key, the scope and the fingerprint in the
// request, records the response, and renders the Guard's advice in the form of a Profile. Package client/httpclient
// is the other side: it sends requests with keys and retries them.
//
// design.md in the folder of this package says why it is built so and what its files are.
package httpsafe
