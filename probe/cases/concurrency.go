package cases

import "github.com/retrysafe/retrysafe/probe"

const (
	races = "Stripe and all others: one key, one effect; " + draft + " §2.6"
	claim = "Claim the key in one atomic statement before the work begins: INSERT … ON CONFLICT DO NOTHING, SET NX. " +
		"Looking first and saving afterwards is a race, and a lock in one process does not hold in the next."
	twice = "A client that is impatient, or a proxy that retries, pays twice."
)

// concurrency: requests with one key that come while the first is being carried out.
func concurrency(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "C01", Name: "pair", Severity: probe.Critical, Safe: true,
			Checks: "Of two requests at once with one key one is carried out, and each is told its result or to wait.",
			Why:    twice,
			Fix:    claim,
			Source: races, Play: s.play(pairs),
		},
		{
			ID: "C02", Name: "burst", Severity: probe.Critical, Safe: true,
			Checks: "Of fifty requests at once with one key one is carried out, and none breaks.",
			Why:    twice,
			Fix:    claim,
			Source: races, Play: s.play(burst),
		},
		{
			ID: "C03", Name: "in flight", Severity: probe.Major, Draft: true,
			Checks: "A duplicate that comes while the first is being carried out is told so, or waits for its answer.",
			Why:    "A client cannot tell work that goes on from work that failed.",
			Fix: "Wait for a few seconds at most, and then answer 409 (what your profile says) while the claim is " +
				"held.",
			Source: draft + " §2.6, §2.7", Needs: s.needs(slow), Play: s.play(inFlight),
		},
		{
			ID: "C04", Name: "when to retry", Severity: probe.Minor,
			Checks: "Who is told that a request is in flight is told when to come again.",
			Why:    "Clients come too soon, and all at once, or too late.",
			Fix:    "Send Retry-After, in whole seconds, with the 409.",
			Source: "RFC 9110 §10.2.3; not in the draft", Needs: s.needs(slow), Play: s.play(whenToRetry),
		},
		{
			ID: "C05", Name: "then the answer", Severity: probe.Critical, Safe: true,
			Checks: "A conflict is not kept: later the same request gets the first one's answer.",
			Why:    "The client never learns that the work was done, gives up the key and does it again.",
			Fix:    "Save what the work answered, never what the layer in front of it said.",
			Source: draft + " §2.6", Play: s.play(thenReplay),
		},
		{
			ID: "C06", Name: "another request in flight", Severity: probe.Critical,
			Checks: "Another request with a key that is in flight is refused and has no effect.",
			Why:    "Two different orders go out under one key, or one gets the other's answer.",
			Fix:    "Save the request's fingerprint with the claim, and compare before anything else is answered.",
			Source: draft + " §2.6, §2.7", Needs: s.needs(slow, changingSlow), Play: s.play(inFlightMismatch),
		},
		{
			ID: "C07", Name: "burst over HTTP/2", Severity: probe.Critical,
			Checks: "Of twenty streams at once with one key on one connection one is carried out.",
			Why:    twice,
			Fix:    claim,
			Source: races + "; RFC 9113 §5", Play: s.play(burstOverHTTP2),
		},
		{
			ID: "C08", Name: "many keys", Severity: probe.Critical,
			Checks: "Two hundred keys at once are two hundred effects, each with its own answer.",
			Why:    "Customers get other customers' orders, or none.",
			Fix:    "Keep nothing of a request outside of it; let the claim lock its key, not the table.",
			Source: always, Play: s.play(manyKeys),
		},
		{
			ID: "C09", Name: "half a request", Severity: probe.Major,
			Checks: "A request that stays half-sent does not keep others from the key.",
			Why:    "A phone that loses its network blocks its own retries.",
			Fix:    "Claim the key when the whole body has been read; bound the time for that.",
			Source: "RFC 9110 §9.2.2; " + always, Play: s.play(halfSent),
		},
		{
			ID: "C10", Name: "conflict from behind", Severity: probe.Critical,
			Checks: "The conflict of a layer further in is not kept: a retry is carried out.",
			Why:    "The client never learns that the work was done, gives up the key and does it again.",
			Fix:    "Keep no 409 that says that a request is in flight: it is the state of a moment.",
			Source: draft + " §2.6; " + always,
			Needs:  s.needs(busyBehind.need), Play: s.play(busyBehind.refusedAtFirst),
		},
		{
			ID: "C11", Name: "half without a key", Severity: probe.Major,
			Checks: "A request without a key that stays half-sent is given up, in the time that the API says.",
			Why:    "A few thousand such requests, which need no login, occupy all connections, and no other client is served.",
			Fix:    "Bound the time for each body, also where there is no key, and answer 408.",
			Source: "RFC 9110 §15.5.9", Needs: s.needs(bodyTimeout), Play: s.play(halfUnkeyed),
		},
		{
			ID: "C12", Name: "unread answer", Severity: probe.Major,
			Checks: "A client that does not read its answer does not keep its key in flight.",
			Why:    "A phone that loses its network while it loads blocks its own retries.",
			Fix:    "Save the answer when the work has given it, and bound the time for which it is sent.",
			Source: always, Needs: s.needs(large), Play: s.play(unreadAnswer),
		},
	}
}
