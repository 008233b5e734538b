package cases

import "github.com/retrysafe/retrysafe/probe"

const (
	races = "Stripe and all others: one key, one effect; " + draft + " §2.6"
	claim = "Claim the key in one atomic statement before the operation runs, such as INSERT … ON CONFLICT DO NOTHING " +
		"or SET NX. A lookup followed by an insert is a race, and a lock in memory does not hold in other processes."
	twice = "An impatient client, or a proxy that retries, makes the customer pay twice."
)

// concurrency: requests with one key that come while the first is being carried out.
func concurrency(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "C01", Name: "pair", Severity: probe.Critical, Safe: true,
			Checks: "Of two simultaneous requests with one key, only one runs. Each gets the result or is told " +
				"to wait.",
			Why:    twice,
			Fix:    claim,
			Source: races, Play: s.play(pairs),
		},
		{
			ID: "C02", Name: "burst", Severity: probe.Critical, Safe: true,
			Checks: "Of fifty simultaneous requests with one key, only one runs. Each gets the result or is told to " +
				"come again, also by a 429 or 503 because of the load.",
			Why:    twice,
			Fix:    claim,
			Source: races, Play: s.play(burst),
		},
		{
			ID: "C03", Name: "in flight", Severity: probe.Major, Draft: true,
			Checks: "A duplicate that arrives while the first request runs is told so, or waits for its answer.",
			Why:    "A client cannot tell an operation that is still running from one that failed.",
			Fix: "While the key is in flight, let duplicates wait for a few seconds at most. Then answer 409, or " +
				"your profile's status.",
			Source: draft + " §2.6, §2.7", Needs: s.needs(slow), Play: s.play(inFlight),
		},
		{
			ID: "C04", Name: "when to retry", Severity: probe.Minor,
			Checks: "The refusal of a duplicate in flight says when to retry.",
			Why:    "Clients retry too early and all at once, or too late.",
			Fix:    "Send Retry-After in whole seconds with the 409.",
			Source: "RFC 9110 §10.2.3; not in the draft", Needs: s.needs(slow), Play: s.play(whenToRetry),
		},
		{
			ID: "C05", Name: "retry after conflict", Severity: probe.Critical, Safe: true,
			Checks: "A duplicate that was refused as in flight gets the first answer when it is sent again later.",
			Why: "The client never learns that the operation ran. It gives the key up and runs the operation " +
				"again under a new one.",
			Fix:    "Save only answers of the operation, never the 409 of the idempotency layer.",
			Source: draft + " §2.6", Play: s.play(thenReplay),
		},
		{
			ID: "C06", Name: "mismatch in flight", Severity: probe.Critical,
			Checks: "A different request with a key that is in flight is refused and does not run.",
			Why:    "Two different orders run under one key, or one of them gets the answer to the other.",
			Fix: "Save the fingerprint of the request when you claim the key. Compare it before you answer " +
				"anything else.",
			Source: draft + " §2.6, §2.7", Needs: s.needs(slow, changingSlow), Play: s.play(inFlightMismatch),
		},
		{
			ID: "C07", Name: "burst over HTTP/2", Severity: probe.Critical,
			Checks: "Of twenty simultaneous HTTP/2 streams with one key on one connection, only one runs.",
			Why:    twice,
			Fix:    claim,
			Source: races + "; RFC 9113 §5", Play: s.play(burstOverHTTP2),
		},
		{
			ID: "C08", Name: "many keys", Severity: probe.Critical,
			Checks: "Of two hundred simultaneous requests with different keys, all run that are not refused because of " +
				"the load (429, 503), and each gets its own answer.",
			Why: "Customers get the answers to other customers' orders, or none.",
			Fix: "Do not keep data of a request in shared variables. Let a claim lock its own key, not the whole " +
				"table.",
			Source: always, Play: s.play(manyKeys),
		},
		{
			ID: "C09", Name: "half-sent request", Severity: probe.Major,
			Checks: "A half-sent request does not block a complete request with the same key.",
			Why:    "A phone that loses its network blocks its own retries.",
			Fix:    "Claim the key only after the whole body has arrived. Limit the time for receiving a body.",
			Source: "RFC 9110 §9.2.2; " + always, Play: s.play(halfSent),
		},
		{
			ID: "C10", Name: "inner conflict", Severity: probe.Critical,
			Checks: "If an inner layer answers that the key is in flight, this answer is not saved: a retry runs.",
			Why:    "The client never gets a result. It gives the key up and runs the operation again under a new one.",
			Fix: "Do not save a 409 that says that a key is in flight, whichever layer sent it. It describes a " +
				"temporary state.",
			Source: draft + " §2.6; " + always,
			Needs:  s.needs(busyBehind.need), Play: s.play(busyBehind.refusedAtFirst),
		},
		{
			ID: "C11", Name: "half-sent, no key", Severity: probe.Major,
			Checks: "A half-sent request without a key is given up within the time that the API documents.",
			Why: "A few thousand such requests, which need no login, occupy all connections. Other clients are " +
				"not served.",
			Fix:    "Limit the time for receiving a body, also for requests without a key. Then answer 408.",
			Source: "RFC 9110 §15.5.9", Needs: s.needs(bodyTimeout), Play: s.play(halfUnkeyed),
		},
		{
			ID: "C12", Name: "unread answer", Severity: probe.Major,
			Checks: "A client that does not read its answer does not keep its key in flight.",
			Why:    "A phone that loses its network during a download blocks its own retries.",
			Fix:    "Save the answer as soon as the operation has produced it. Limit the time for sending it.",
			Source: always, Needs: s.needs(large), Play: s.play(unreadAnswer),
		},
	}
}
