package cases

import "github.com/retrysafe/retrysafe/probe"

const detached = "Let the work and the saving of its answer run on when the client hangs up: a context of their own, " +
	"not the " +
	"request's."

// failures: what becomes of a key when the request fails, the client goes away, or the server does.
func failures(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "F01", Name: "business error", Severity: probe.Major,
			Checks: "A request that was refused for a business reason is refused again, not carried out.",
			Why:    "A payment that was declined, and shown so, is carried out after all, and the customer does not know.",
			Fix:    "Keep the refusal with the key, or free the key and say so; do not do both.",
			Source: draft + " §2.6; Stripe", Needs: s.needs(failing), Play: s.play(businessError),
		},
		{
			ID: "F02", Name: "corrected", Severity: probe.Major,
			Checks: "Who corrects a refused request needs a new key.",
			Why:    "A late retry of the refused request and the corrected one get each other's answers.",
			Fix:    "Keep the fingerprint of refused requests, and refuse another one under the same key.",
			Source: draft + " §2.2, §2.7; Stripe", Needs: s.needs(failing), Play: s.play(corrected),
		},
		{
			ID: "F03", Name: "invalid body", Severity: probe.Major,
			Checks: "What becomes of a key that came with a body that could not be read.",
			Why:    "The right request gets the error of the wrong one for as long as the key is kept.",
			Fix:    "Check the form before the key is claimed, or compare the bodies.",
			Source: "Stripe: not saved; " + draft + " says nothing",
			Needs:  s.needs(invalid), Play: s.play(invalidThenValid),
		},
		{
			ID: "F04", Name: "401 is not kept", Severity: probe.Major, Safe: true,
			Checks: "A request that was refused for its credential is carried out with a good one.",
			Why:    "A client whose token had expired refreshes it, retries, and is refused for a day.",
			Fix:    "Authenticate before the key is looked up; never save 401 or 403.",
			Source: "Stripe; RFC 9110 §15.5.2", Needs: s.needs(oneCredential), Play: s.play(refusedCredential),
		},
		{
			ID: "F05", Name: "429 is not kept", Severity: probe.Major,
			Checks: "A request that came too often is carried out later.",
			Why:    "A client that waits and retries, as it was told, is refused for a day.",
			Fix:    "Limit rates before the key is looked up; never save 429.",
			Source: "Stripe; RFC 6585 §4", Needs: s.needs(rate), Play: s.play(limitedThenNot),
		},
		{
			ID: "F06", Name: "5xx", Severity: probe.Critical,
			Checks: "What becomes of a key whose work ended with a 5xx; it has no second effect.",
			Why:    "Work that had its effect before it failed has it again.",
			Fix: "Free the key only if nothing has happened; otherwise keep the answer, or say that the outcome is " +
				"unknown.",
			Source: "Stripe: kept; httpapi issue 41", Needs: s.needs(broken), Play: s.play(brokenTwice),
		},
		{
			ID: "F07", Name: "client aborts", Severity: probe.Critical, Safe: true,
			Checks: "A client that was cut off while its request was being carried out gets the result later, of " +
				"the only time it ran.",
			Why:    "Phones lose their network just then: the retry pays again, or never learns the result.",
			Fix:    detached,
			Source: always, Play: s.play(clientAborts),
		},
		{
			ID: "F08", Name: "answer lost", Severity: probe.Critical, Safe: true,
			Checks: "A client that sent all and went away before the answer gets it from a retry at once.",
			Why:    "This is the failure that keys were made for.",
			Fix:    detached,
			Source: always, Play: s.play(answerLost),
		},
		{
			ID: "F09", Name: "impatient client", Severity: probe.Critical,
			Checks: "Five retries on the heels of an abort are still one effect.",
			Why:    "Short timeouts turn one request into many.",
			Fix:    detached,
			Source: always, Play: s.play(impatientClient),
		},
		{
			ID: "F10", Name: "crash", Severity: probe.Critical,
			Checks: "A request that a crash of the server cut off is carried out once in all, or said to be of " +
				"unknown outcome.",
			Why: "The retry after the crash pays a second time, or is blocked for as long as keys are kept.",
			Fix: "Keep claims where they outlive the process, with a lease of their own, much shorter than the " +
				"retention. When it ends, do again only what was " + "rolled back; otherwise say that the outcome " +
				"is unknown.",
			Source: always, Needs: s.needs(restartHook), Play: s.play(crash),
		},
		{
			ID: "F11", Name: "restart", Severity: probe.Critical,
			Checks: "Answers outlive a restart of the server.",
			Why:    "Each deployment forgets who has paid.",
			Fix:    "Keep keys in a store that outlives the process.",
			Source: always + "; Stripe: 24 hours", Needs: s.needs(restartHook), Play: s.play(restart),
		},
		{
			ID: "F12", Name: "store down", Severity: probe.Critical,
			Checks: "When keys cannot be looked up, requests with keys are refused.",
			Why:    "In an outage, when all clients retry, nothing protects them.",
			Fix:    "Answer 503 when the store cannot be reached, and keep nothing of that.",
			Source: "Adyen 703; " + always, Needs: s.needs(storeHooks), Play: s.play(storeDown),
		},
	}
}
