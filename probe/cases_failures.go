package probe

// failures: what becomes of a key when the request fails, the client goes away, or the server does.
func failures() []Case {
	record := "Let the work and the saving of its answer run on when the client hangs up: a context of their own, not the request's."
	return []Case{
		{
			ID: "F01", Name: "business error", Checks: "A request that was refused for a business reason is refused again, not carried out.", Source: draft + " §2.6; Stripe",
			Severity: Major, Needs: []Need{aFailingVariant()}, Why: "A payment that was declined, and shown so, goes through behind everybody's back.",
			Fix: "Keep the refusal with the key, or free the key and say so; do not do both.", run: businessError,
		},
		{
			ID: "F02", Name: "corrected", Checks: "Who corrects a refused request needs a new key.", Source: draft + " §2.2, §2.7; Stripe", Severity: Major,
			Needs: []Need{aFailingVariant()}, Why: "A late retry of the refused request and the corrected one get each other's answers.",
			Fix: "Keep the fingerprint of refused requests, and refuse another one under the same key.", run: corrected,
		},
		{
			ID: "F03", Name: "invalid body", Checks: "What becomes of a key that came with a body that could not be read.", Source: "Stripe: not saved; " + draft + " says nothing",
			Severity: Major, Needs: []Need{anInvalidVariant()}, Why: "The right request gets the error of the wrong one for as long as the key is kept.",
			Fix: "Check the form before the key is claimed, or compare the bodies.", run: invalidThenValid,
		},
		{
			ID: "F04", Name: "401 is not kept", Checks: "A request that was refused for its credential is carried out with a good one.", Source: "Stripe; RFC 9110 §15.5.2",
			Severity: Major, Safe: true, Needs: []Need{aCredential()}, Why: "A client whose token had expired refreshes it, retries, and is refused for a day.",
			Fix: "Authenticate before the key is looked up; never save 401 or 403.", run: refusedCredential,
		},
		{
			ID: "F05", Name: "429 is not kept", Checks: "A request that came too often is carried out later.", Source: "Stripe; RFC 6585 §4", Severity: Major,
			Needs: []Need{aLimitedVariant()}, Why: "A client that waits and retries, as it was told, is refused for a day.",
			Fix: "Limit rates before the key is looked up; never save 429.", run: limitedThenNot,
		},
		{
			ID: "F06", Name: "5xx", Checks: "What becomes of a key whose work ended with a 5xx; it has no second effect.", Source: "Stripe: kept; httpapi issue 41",
			Severity: Critical, Needs: []Need{aBrokenVariant()}, Why: "Work that had its effect before it failed has it again.",
			Fix: "Free the key only if nothing has happened; otherwise keep the answer, or say that the outcome is unknown.", run: brokenTwice,
		},
		{
			ID: "F07", Name: "client aborts", Checks: "A client that was cut off while its request was being carried out gets the result later, of the only time it ran.",
			Source: always, Severity: Critical, Safe: true, Why: "Phones lose their network just then: the retry pays again, or never learns the result.", Fix: record,
			run: clientAborts,
		},
		{
			ID: "F08", Name: "answer lost", Checks: "A client that sent all and went away before the answer gets it from a retry at once.", Source: always,
			Severity: Critical, Safe: true, Why: "This is the failure that keys were made for.", Fix: record, run: answerLost,
		},
		{
			ID: "F09", Name: "impatient client", Checks: "Five retries on the heels of an abort are still one effect.", Source: always, Severity: Critical,
			Why: "Short timeouts turn one request into many.", Fix: record, run: timeoutStorm,
		},
		{
			ID: "F10", Name: "crash", Checks: "A request that a crash of the server cut off is carried out once in all, or said to be of unknown outcome.", Source: always,
			Severity: Critical, Needs: []Need{aRestart()}, Why: "The retry after the crash pays a second time, or is blocked for as long as keys are kept.",
			Fix: "Keep claims where they outlive the process, with a lease of their own, much shorter than the retention. When it ends, do again only what was " +
				"rolled back; otherwise say that the outcome is unknown.", run: crash,
		},
		{
			ID: "F11", Name: "restart", Checks: "Answers outlive a restart of the server.", Source: always + "; Stripe: 24 hours", Severity: Critical, Needs: []Need{aRestart()},
			Why: "Each deployment forgets who has paid.", Fix: "Keep keys in a store that outlives the process.", run: restart,
		},
		{
			ID: "F12", Name: "store down", Checks: "When keys cannot be looked up, requests with keys are refused.", Source: "Adyen 703; " + always, Severity: Critical,
			Needs: []Need{aStoppableStore()}, Why: "In an outage, when everybody retries, nothing protects them.",
			Fix: "Answer 503 when the store cannot be reached, and keep nothing of that.", run: storeDown,
		},
	}
}

func aFailingVariant() Need {
	return needs("variants.failing: a request that is refused with a 4xx for a business reason", func(r *Recipe) bool { return r.Variants.Failing != nil })
}

func anInvalidVariant() Need {
	return needs("variants.invalid: a request whose form is wrong", func(r *Recipe) bool { return r.Variants.Invalid != nil })
}

func aBrokenVariant() Need {
	return needs("variants.broken: a request that ends with a 5xx", func(r *Recipe) bool { return r.Variants.Broken != nil })
}

func aLimitedVariant() Need {
	return needs("variants.rate_limit: a request that is answered 429 when made too often", func(r *Recipe) bool { return r.Variants.RateLimit != nil })
}

func aRestart() Need {
	return needs("hooks.restart: a command that ends the target at once and starts it again", func(r *Recipe) bool { return r.Hooks.Restart != nil })
}

func aStoppableStore() Need {
	return needs("hooks.stop_store and hooks.start_store", func(r *Recipe) bool { return r.Hooks.StopStore != nil && r.Hooks.StartStore != nil })
}
