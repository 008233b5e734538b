// Package httpsafe makes net/http handlers safe to retry: a request with an idempotency key runs its handler at most
// once, and every retry gets the same response, byte for byte.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	safe := httpsafe.Middleware(guard, callerOf, httpsafe.Options{})
//	mux.Handle("POST /payments", authenticate(safe(pay)))
//
// callerOf is a ScopeFunc: it returns the caller of a request, as authentication has put it into the context.
//
// The rules are the Guard's, and this package adds none. It finds the key, the scope and the fingerprint in the
// request, records the response, and renders the Guard's advice in the form of a Profile. Package client/httpclient
// is the other side: it sends requests with keys and retries them.
//
// # What is where
//
// Choices: options.go (what a deployment chooses), profile.go and profiles.go (what a family of APIs has in common),
// rules.go (what is in force, by value), config.go (the same, for serving requests).
//
// The way of a request, in this order: middleware.go (is it guarded?), exchange.go (key, caller, quota, fingerprint,
// claim), run.go (call the handler), recorder.go and response.go (record its response), outcome.go (409 or replay?),
// deliver.go (send what the handler wrote), replay.go (send what is stored).
//
// Parts of it: key.go and keysource.go (keys), scope.go (callers), age.go (old keys), body.go (request bodies),
// memory.go (limits on memory), fingerprint.go, fingerprint_forms.go and mismatch.go (is it the same request?),
// classes.go (what a status means for the key), headers.go and meta.go (what is stored of a header), capture.go
// (responses saved by the handler's transaction), handler.go (what a handler can say of its outcome), expect.go,
// prefer.go and async.go (waiting, and answering early), gzip.go (replays to clients that do not accept gzip).
//
// Refusals: problem.go (how one is written), problems.go (situation to status), profile_errors.go (the forms of the
// profiles). Pages: policypage.go (the published rules) and status.go (the state of a key).
//
// # Design
//
//   - Who answers decides what a status means. A handler knows that it failed, so a profile may free the key after its
//     500. An answer that a layer makes up because it got none (Ambiguous) is never classified by its status: the key
//     is abandoned, as after a crash.
//   - A 500 follows the policy for crashes. Where Rerun or Reconcile says that work may be entered again after a crash,
//     it may be entered again after a 500. Under Refuse an ambiguous answer is stored.
//   - A refusal in flight is not an answer of the operation. A guard behind this one, or a provider, may answer 4xx "in
//     flight" under the same key. Such answers are recognised by the signals of the client, passed on and not kept.
//   - If a service completes the key elsewhere, the record decides after the handler has returned. So nothing of its
//     response is sent before, and the stored response replaces it for the first caller too.
//   - Hosts are compared by name. A fingerprint holds the host's name, for APIs that tell tenants apart by it, but no
//     port and no IP address, because clients that balance load retry at another address of the same service.
//   - This package only says how many bytes an exchange takes and gives back (MemoryFunc). Asynchronous work takes some
//     too, so that it is counted until it ends.
package httpsafe
