package probe

const races = "Stripe and all others: one key, one effect; " + draft + " §2.6"

// concurrency: requests with one key that come while the first is being carried out.
func concurrency() []Case {
	claim := "Claim the key in one atomic statement before the work begins: INSERT … ON CONFLICT DO NOTHING, SET NX. Looking first and saving " +
		"afterwards is a race, and a lock in one process does not hold in the next."
	twice := "A client that is impatient, or a proxy that retries, pays twice."
	return []Case{
		{
			ID: "C01", Name: "pair", Checks: "Of two requests at once with one key one is carried out, and each is told its result or to wait.", Source: races,
			Severity: Critical, Safe: true, Why: twice, Fix: claim, run: pairs,
		},
		{
			ID: "C02", Name: "burst", Checks: "Of fifty requests at once with one key one is carried out, and none breaks.", Source: races,
			Severity: Critical, Safe: true, Why: twice, Fix: claim, run: burst,
		},
		{
			ID: "C03", Name: "in flight", Checks: "A duplicate that comes while the first is being carried out is told so, or waits for its answer.", Source: draft + " §2.6, §2.7",
			Severity: Major, Draft: true, Needs: []Need{aSlowVariant()},
			Why: "A client cannot tell work that goes on from work that failed.",
			Fix: "Wait for a few seconds at most, and then answer 409 (what your profile says) while the claim is held.", run: inFlight,
		},
		{
			ID: "C04", Name: "when to retry", Checks: "Who is told that a request is in flight is told when to come again.", Source: "RFC 9110 §10.2.3; not in the draft",
			Severity: Minor, Needs: []Need{aSlowVariant()}, Why: "Clients come too soon, and all at once, or too late.",
			Fix: "Send Retry-After, in whole seconds, with the 409.", run: retryAfter,
		},
		{
			ID: "C05", Name: "then the answer", Checks: "A conflict is not kept: later the same request gets the first one's answer.", Source: draft + " §2.6",
			Severity: Critical, Safe: true, Why: "The client never learns that the work was done, gives up the key and does it again.",
			Fix: "Save what the work answered, never what the layer in front of it said.", run: thenReplay,
		},
		{
			ID: "C06", Name: "another request in flight", Checks: "Another request with a key that is in flight is refused and has no effect.", Source: draft + " §2.6, §2.7",
			Severity: Critical, Needs: []Need{aSlowVariant(), aChangingSlowBody()}, Why: "Two different orders go out under one key, or one gets the other's answer.",
			Fix: "Save the request's fingerprint with the claim, and compare before anything else is answered.", run: inFlightMismatch,
		},
		{
			ID: "C07", Name: "burst over HTTP/2", Checks: "Of twenty streams at once with one key on one connection one is carried out.", Source: races + "; RFC 9113 §5",
			Severity: Critical, Why: twice, Fix: claim, run: burstOverHTTP2,
		},
		{
			ID: "C08", Name: "many keys", Checks: "Two hundred keys at once are two hundred effects, each with its own answer.", Source: always,
			Severity: Critical, Why: "Customers get other customers' orders, or none.",
			Fix: "Keep nothing of a request outside of it; let the claim lock its key, not the table.", run: manyKeys,
		},
		{
			ID: "C09", Name: "half a request", Checks: "A request that stays half-sent does not keep others from the key.", Source: "RFC 9110 §9.2.2; " + always,
			Severity: Major, Why: "A phone that loses its network blocks its own retries.",
			Fix: "Claim the key when the whole body has been read; bound the time for that.", run: halfSent,
		},
		{
			ID: "C10", Name: "conflict from behind", Checks: "The conflict of a layer further in is not kept: a retry is carried out.", Source: draft + " §2.6; " + always,
			Severity: Critical, Needs: []Need{busyBehind().need()},
			Why: "The client never learns that the work was done, gives up the key and does it again.",
			Fix: "Keep no 409 that says that a request is in flight: it is the state of a moment.",
			run: busyBehind().carriedOutLater,
		},
		{
			ID: "C11", Name: "half without a key", Checks: "A request without a key that stays half-sent is given up, in the time that the API says.", Source: "RFC 9110 §15.5.9",
			Severity: Major, Needs: []Need{aBodyTimeout()}, Why: "A few thousand such requests, which need no login, take all places, and nobody else is served.",
			Fix: "Bound the time for each body, also where there is no key, and answer 408.", run: halfUnkeyed,
		},
		{
			ID: "C12", Name: "unread answer", Checks: "A client that does not read its answer does not keep its key in flight.", Source: always, Severity: Major,
			Needs: []Need{aLargeVariant()}, Why: "A phone that loses its network while it loads blocks its own retries.",
			Fix: "Save the answer when the work has given it, and bound the time for which it is sent.", run: unreadAnswer,
		},
	}
}

func aChangingSlowBody() Need {
	return needs("a generator such as {{amount}} in variants.slow, so that another request can be made", func(r *Recipe) bool {
		return r.Variants.Slow != nil && r.Variants.Slow.changes()
	})
}

func aBodyTimeout() Need {
	return needs("body_timeout: how long the API waits for a body, at most limits.wait", func(r *Recipe) bool {
		return r.BodyTimeout > 0 && r.BodyTimeout <= r.Limits.Wait && r.Request.Body != ""
	})
}
