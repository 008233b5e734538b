// Package webhook sends the messages of an outbox as webhooks, and receives webhooks, both as [Standard Webhooks] say
// (version
// 1.0.0): each carries the message's key as webhook-id, the time of the try as webhook-timestamp, and a signature
// over both and the body.
//
// The sending side is a Sink for a relay:
//
//	secrets, err := webhook.ParseSecrets("whsec_…")
//	sink := webhook.NewSink(webhook.To("https://partner.example/hooks", secrets), webhook.SinkOptions{})
//	relay := outbox.NewRelay(box, sink, outbox.RelayOptions{})
//
// The receiving side is a middleware. A webhook comes at least once, so put httpsafe's middleware inside of it, with
// webhook-id as the key, and its effects happen once:
//
//	verify := webhook.Verify(secrets, webhook.VerifyOptions{})
//	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{
//		Required: true, Profile: httpsafe.IETF().WithHeader(webhook.HeaderID),
//	})
//	mux.Handle("POST /hooks", verify(once(handler)))
//
// Verify reads the body, and hands it on as it came. It must be the outer one: nobody takes a key, or reads an
// answer, without a signature.
//
// [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
package webhook
