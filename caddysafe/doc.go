// Package caddysafe is a module for Caddy: the handler http.handlers.retrysafe makes the handlers after it safe to
// retry, as package httpsafe does for a program in Go. A request with an idempotency key reaches them at most once, and
// every retry gets the same answer. No other process is needed.
//
//	api.example.com {
//		retrysafe /charges {
//			store postgres://caddy@db/shop
//			required
//		}
//		reverse_proxy service:3000
//	}
//
// In JSON it is {"handler": "retrysafe", "store": "postgres://caddy@db/shop", "required": true}. [Handler] has the
// options. Build a Caddy with it, or install the one in cmd/caddy:
//
//	xcaddy build --with github.com/retrysafe/retrysafe/caddysafe
//
// In the Caddyfile the directive comes after encode, so that answers are stored as the service wrote them, and after
// the directives that authenticate callers. Requests without a key, and methods other than POST and PATCH, pass through
// unchanged unless the options say otherwise.
//
// # Errors of later handlers
//
// If a handler such as reverse_proxy returns an error for a request with a key, the client gets its status, and Caddy's
// handle_errors does not see it, because the answer is recorded. If nothing was sent, because the upstream could not be
// reached or none was available (503), the key is free. Any other error of 500 or more leaves the outcome unknown: a retry
// does not run, as behind the proxy. Do not let reverse_proxy send a request with a key again (lb_retry_match): the service
// would do its work twice in one attempt.
//
// design.md in the folder of this package says what its files are, and why it is built so.
package caddysafe
