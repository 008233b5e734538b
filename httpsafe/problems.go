package httpsafe

import (
	"slices"
	"time"
)

// Problems returns what is constant in each situation.
func Problems() []Problem {
	return slices.Concat(keyProblems(), requestProblems(), attemptProblems())
}

// problem returns the problem for a slug.
func problem(s Slug) Problem {
	for _, group := range [...]func() []Problem{attemptProblems, keyProblems, requestProblems} {
		for _, p := range group() {
			if p.Slug == s {
				return p
			}
		}
	}
	panic("httpsafe: no problem " + string(s))
}

// keyProblems are about the key: its form, and what it was used for.
func keyProblems() []Problem {
	return []Problem{
		{
			Slug: KeyMissing, Status: 400,
			Title:          "Idempotency-Key is missing",
			Detail:         "This operation is idempotent and it requires correct usage of Idempotency Key.",
			NewKeyRequired: true, Executed: "no",
		},
		{
			Slug: KeyMalformed, Status: 400,
			Title:          "Idempotency-Key is malformed",
			Detail:         "Send one key that has the published form.",
			NewKeyRequired: true, Executed: "no",
		},
		{
			Slug: KeyUnknown, Status: 404,
			Title:    "Nothing is known of this key",
			Detail:   "The key was never used by this caller, or is forgotten.",
			Executed: "unknown",
		},
		{
			Slug: KeyReused, Status: 422,
			Title:          "Idempotency-Key is already used",
			Detail:         "This key was first used for a different request. Use a new key for a new operation.",
			NewKeyRequired: true, Executed: "no",
		},
		{
			Slug: KeyExpired, Status: 422,
			Title:          "Idempotency-Key is expired",
			Detail:         "The answer under this key is no longer kept. Find out what happened before using a new key.",
			NewKeyRequired: true, Executed: "unknown",
		},
		{
			Slug: KeyClosed, Status: 422,
			Title: "The operation was not executed",
			Detail: "The outcome under this key was unknown. It has been found out that the operation did not happen or was undone, " +
				"and it will not run under this key. Use a new key to perform it.",
			NewKeyRequired: true, Executed: "no",
		},
		{
			Slug: KeyQuota, Status: 429,
			Title:     "Too many keys",
			Detail:    "This caller has reached its quota of keys. Retry after the indicated delay.",
			Retryable: true, Executed: "no", RetryAfter: time.Second,
		},
		{
			Slug: NotSupported, Status: 501,
			Title:    "Idempotency-Key is not supported here",
			Detail:   "This operation does not take a key. Nothing was run.",
			Executed: "no",
		},
	}
}

// requestProblems are about the request that brings it. Nothing was run.
func requestProblems() []Problem {
	return []Problem{
		{
			Slug: BodyUnreadable, Status: 400,
			Title:     "The request body could not be read",
			Detail:    "The body ended early or was not sent correctly. Nothing was recorded; retry with the same key.",
			Retryable: true, Executed: "no",
		},
		{
			Slug: BodyTimeout, Status: 408,
			Title:     "The request body did not arrive in time",
			Detail:    "The body came too slowly. Nothing was recorded; retry with the same key.",
			Retryable: true, Executed: "no",
		},
		{
			Slug: BodyTooLarge, Status: 413,
			Title:    "The request body is too large",
			Detail:   "Requests with a key are limited in size.",
			Executed: "no",
		},
		{
			Slug: ScopeUnresolved, Status: 401,
			Title:    "The caller could not be determined",
			Detail:   "A key belongs to one caller. Authenticate, then retry with the same key.",
			Executed: "no",
		},
		{
			Slug: EarlyData, Status: 425,
			Title:     "Too Early",
			Detail:    "This operation is not accepted as early data. Retry once the connection is established.",
			Retryable: true, Executed: "no",
		},
	}
}

// attemptProblems are about an attempt: one that is under way, one whose end is unknown, one that the store cannot protect.
func attemptProblems() []Problem {
	return []Problem{
		{
			Slug: RequestInFlight, Status: 409,
			Title:     "A request is outstanding for this Idempotency-Key",
			Detail:    "Retry unchanged after the indicated delay.",
			Retryable: true, Executed: "unknown",
		},
		{
			Slug: OutcomeUnknown, Status: 500,
			Title: "The outcome of the operation is unknown",
			Detail: "The operation started, but whether it completed is unknown, and a retry does not run it again. " +
				"Look for its effect, or ask support and give them the instance. Send it with a new key only if it has not happened.",
			Executed: "unknown",
		},
		{
			Slug: StoreUnavailable, Status: 503,
			Title:     "The operation cannot be protected at the moment",
			Detail:    "Nothing was run. Retry with the same key.",
			Retryable: true, Executed: "no", RetryAfter: time.Second,
		},
	}
}
