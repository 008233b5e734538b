// Package webhook sends the messages of an outbox as webhooks and receives webhooks, according to [Standard Webhooks]
// (version 1.0.0). Each webhook carries the message's key as webhook-id, the time of the try as webhook-timestamp,
// and a signature over both and the body.
//
// The sending side is a Sink for a relay:
//
//	secrets, err := webhook.ParseSecrets("whsec_…")
//	sink := webhook.NewSink(webhook.To("https://partner.example/hooks", secrets), webhook.SinkOptions{})
//	relay := outbox.NewRelay(box, sink, outbox.RelayOptions{})
//
// The receiving side is a middleware. A webhook is delivered at least once. Put httpsafe's middleware inside, with
// webhook-id as the key, so that its effects happen once:
//
//	verify := webhook.Verify(secrets, webhook.VerifyOptions{})
//	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{
//		Required: true, Profile: httpsafe.IETF().WithHeader(webhook.HeaderID),
//	})
//	mux.Handle("POST /hooks", verify(once(handler)))
//
// Verify reads the body and passes it on unchanged. It must be the outer middleware, so that only signed requests can
// claim a key or get an answer.
//
// [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
package webhook
