// Package inbox accepts HTTP requests, acknowledges them as soon as they are on disk, and delivers each to its handler
// until it is done: also if the handler, its database or this process was down meanwhile. It is for webhooks, whose
// senders wait for seconds and retry for hours, and for clients that need not wait for an answer.
//
//	box, err := outbox.New(db, outbox.PostgreSQL, outbox.Options{Table: "inbox"})
//	_, err = box.Migrate(ctx)
//	in := inbox.New(box, "stripe", inbox.Options{Order: httpsafe.TagPlace{Pointer: "/data/object/id"}})
//
//	once := httpsafe.Middleware(guard, scope, httpsafe.Options{
//		Inbox: in, KeySource: httpsafe.NaturalKey{Fields: []string{"/id"}}, StatusPath: "/status",
//	})
//	mux.Handle("POST /webhooks/stripe", once(handler))
//	go in.Run(ctx, once(handler)) // here, in other processes, in as many as you like
//
// A request is saved under its key in a table of package outbox, in one write that other requests share, and answered
// with 202 and the address of its status. A repeated request gets the same answer and is not saved again; another request
// with the same key is refused. Verify signatures in a middleware outside of it: what was not verified is then not saved.
//
// # Guarantees
//
// A request that was acknowledged is delivered until the handler gives a definite answer, unless it is given up: see
// Options. Whatever becomes of processes and connections, the handler runs at most once for it, by the rules of the
// Guard's Policy, because each delivery claims the key under which the request was accepted. A handler that completes its
// key in its own database transaction (pgstore.InTx, Options.CompletedElsewhere) so has its effect exactly once.
//
// Nothing is acknowledged that is not on disk. A request that was refused, or whose client got no answer, may have been
// saved and delivered nevertheless: its client retries, as always.
//
// # Definite answers
//
// An answer below 300 ends a request. One of 300 and above that is kept as the answer of the key ends it too: the request
// becomes a dead letter of the outbox, which a person looks at. An answer that frees the key, such as 503 with Retry-After
// under most profiles, is followed by another try. If the outcome is unknown, the Policy decides: under Rerun and
// Reconcile it is tried again, and under Refuse it becomes a dead letter.
//
// A request whose delivery was not seen to end, because all processes were killed, is delivered again, and its record
// says what became of it. If they start again when the record may have expired (Retention of the Policy), and there is
// none, the request becomes a dead letter too: it may have been executed.
//
// # Files
//
// inbox.go has the Inbox and its limits, request.go says how a request is saved, group.go saves those of many callers
// together, and deliver.go delivers.
package inbox
