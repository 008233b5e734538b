// Package signature verifies that webhooks come from their sender. A Verifier's method Verify is an httpsafe.VerifyFunc:
//
//	verifier, err := signature.New(signature.Stripe, os.Getenv("STRIPE_WEBHOOK_SECRET"))
//	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{
//		VerifyFunc: verifier.Verify,
//		KeySource:  httpsafe.KeyInBody{Pointer: "/id"},
//	})
//	mux.Handle("POST /hooks/stripe", once(handler))
//
// A request is refused with 401 unless it has a signature of its exact bytes by one of the secrets. While the sender
// changes its secret, give both. Where a scheme signs the time, it must be within a tolerance of this machine's clock, in
// both directions.
//
// A signature covers what the scheme says, and nothing else: see [Scheme]. A captured request can be sent again with
// another value in a header that is not covered. So take the key from what is covered, as the example does.
package signature
