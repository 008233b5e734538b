package cases

import "github.com/retrysafe/retrysafe/probe"

const detached = "When the client disconnects, let the operation and the saving of its answer continue. Give them a " +
	"context of their own, not the context of the request."

// failures: what becomes of a key when the request fails, the client goes away, or the server does.
func failures(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "F01", Name: "business error", Severity: probe.Major,
			Checks: "A retry of a request that was refused for a business reason is refused again and does not run.",
			Why:    "A payment that was shown as declined runs after all, and the customer does not know.",
			Fix: "Save the refusal as the answer to the key. If you release the key instead, the refusal must " +
				"say so.",
			Source: draft + " §2.6; Stripe", Needs: s.needs(failing), Play: s.play(businessError),
		},
		{
			ID: "F02", Name: "corrected", Severity: probe.Major,
			Checks: "A corrected request cannot reuse the key of the refused one. It needs a new key.",
			Why:    "A late retry of the refused request and the corrected request get each other's answers.",
			Fix:    "Keep the fingerprint of a refused request, and refuse a different request with its key.",
			Source: draft + " §2.2, §2.7; Stripe", Needs: s.needs(failing), Play: s.play(corrected),
		},
		{
			ID: "F03", Name: "invalid body", Severity: probe.Major,
			Checks: "A valid request does not get the error of an earlier invalid request with the same key.",
			Why:    "The corrected request gets the old validation error until the key expires.",
			Fix:    "Validate the request before you claim the key, or compare the fingerprints of the two requests.",
			Source: "Stripe: not saved; " + draft + " says nothing",
			Needs:  s.needs(invalid), Play: s.play(invalidThenValid),
		},
		{
			ID: "F04", Name: "401 not saved", Severity: probe.Major, Safe: true,
			Checks: "A request that was refused for its credential runs when it is retried with a good credential.",
			Why:    "A client whose token expired refreshes it and retries, but is refused until the key expires.",
			Fix:    "Authenticate before you look the key up. Never save a 401 or 403.",
			Source: "Stripe; RFC 9110 §15.5.2", Needs: s.needs(oneCredential), Play: s.play(refusedCredential),
		},
		{
			ID: "F05", Name: "429 not saved", Severity: probe.Major,
			Checks: "A request that was refused by a rate limit runs when it is retried later.",
			Why:    "A client that waits and retries as the 429 asked it to is refused until the key expires.",
			Fix:    "Apply rate limits before you look the key up. Never save a 429.",
			Source: "Stripe; RFC 6585 §4", Needs: s.needs(rate), Play: s.play(limitedThenNot),
		},
		{
			ID: "F06", Name: "5xx", Severity: probe.Critical,
			Checks: "A retry after a 5xx has no second effect. Recorded: what happens to the key.",
			Why:    "An operation that took effect before it failed takes effect again.",
			Fix: "Release the key only if nothing happened. Otherwise save the answer, or say that the outcome " +
				"is unknown.",
			Source: "Stripe: kept; httpapi issue 41", Needs: s.needs(broken), Play: s.play(brokenTwice),
		},
		{
			ID: "F07", Name: "client aborts", Severity: probe.Critical, Safe: true,
			Checks: "A client whose connection breaks while its request runs gets the result from a retry. The " +
				"operation runs once.",
			Why:    "Phones lose their network at such moments. The customer pays again, or never learns the result.",
			Fix:    detached,
			Source: always, Play: s.play(clientAborts),
		},
		{
			ID: "F08", Name: "answer lost", Severity: probe.Critical, Safe: true,
			Checks: "A client that disconnects after sending its request gets the answer from an immediate retry.",
			Why: "Keys exist for this failure. Without the answer, the customer pays again or never learns the " +
				"result.",
			Fix:    detached,
			Source: always, Play: s.play(answerLost),
		},
		{
			ID: "F09", Name: "impatient client", Severity: probe.Critical,
			Checks: "Five quick retries after a broken connection have one effect.",
			Why:    "Short timeouts of clients turn one request into several operations.",
			Fix:    detached,
			Source: always, Play: s.play(impatientClient),
		},
		{
			ID: "F10", Name: "crash", Severity: probe.Critical,
			Checks: "A request that a crash of the server interrupts runs once in all, or its outcome is " +
				"reported as unknown.",
			Why: "The customer pays again on the retry after the crash, or the retry is blocked until the key " +
				"expires.",
			Fix: "Store claims outside of the process, with a lease much shorter than the retention. After the " +
				"lease, run the operation again only if the first attempt was rolled back. Otherwise answer that " +
				"the outcome is unknown.",
			Source: always, Needs: s.needs(restartHook), Play: s.play(crash),
		},
		{
			ID: "F11", Name: "restart", Severity: probe.Critical,
			Checks: "Saved answers survive a restart of the server.",
			Why:    "After each deployment, retries run again and customers pay twice.",
			Fix:    "Keep keys and answers in a store that outlives the process.",
			Source: always + "; Stripe: 24 hours", Needs: s.needs(restartHook), Play: s.play(restart),
		},
		{
			ID: "F12", Name: "store down", Severity: probe.Critical,
			Checks: "While the store of the keys is unreachable, requests with a key are refused. They run when " +
				"the store is back.",
			Why:    "In an outage all clients retry, and nothing prevents duplicates.",
			Fix:    "Answer 503 while the store cannot be reached, and do not save that answer.",
			Source: "Adyen 703; " + always, Needs: s.needs(storeHooks), Play: s.play(storeDown),
		},
	}
}
