package probe

const comparing = draft + " §2.4, §2.7"

// mismatches: what comes of another request under a key that has been used.
func mismatches() []Case {
	return []Case{
		{
			ID: "M01", Name: "other body", Checks: "Another body under the same key is refused, and never carried out.", Source: draft + " §2.7",
			Severity: Critical, Safe: true, Needs: []Need{aChangingBody()},
			Why: "The client believes that what it asked for the second time has happened, or both things happen under one key.",
			Fix: "Keep a fingerprint of the request with the key, compare it before anything else, and refuse with the profile's status.", run: otherBody,
		},
		{
			ID: "M02", Name: "no poison", Checks: "A refused request does not spoil the key: the first one's retry gets its answer.",
			Source: draft + " §2.6", Severity: Critical, Safe: true, Needs: []Need{aChangingBody()},
			Why: "Somebody's mistake takes another one's answer away, and its retry runs again.", Fix: "A mismatch must not write to the record.",
			run: noPoison,
		},
		{
			ID: "M03", Name: "other method", Checks: "PATCH with the key of a POST does not get the POST's answer.", Source: comparing, Severity: Major,
			Why: "The client believes that a change was made that was not.", Fix: "The method belongs to the fingerprint, or to the key's scope.",
			run: otherMethod,
		},
		{
			ID: "M04", Name: "other route", Checks: "The same key at another route never gets the first route's answer.", Source: comparing,
			Severity: Critical, Needs: []Need{anotherRoute()}, Why: "A client that uses one key for a whole order gets an answer about another resource.",
			Fix: "The route belongs to the fingerprint, or to the key's scope.", run: otherRoute,
		},
		{
			ID: "M05", Name: "other query", Checks: "The same path with another query does not silently get the first answer.", Source: comparing,
			Severity: Major, Why: "A dry run's answer is given to the real request.", Fix: "The query belongs to the fingerprint.", run: otherQuery,
		},
		{
			ID: "M06", Name: "other media type", Checks: "The same bytes as another media type are another request.", Source: comparing, Severity: Major,
			Needs: []Need{aBody()}, Why: "Bytes mean something else in another format.", Fix: "The media type belongs to the fingerprint.", run: otherMedia,
		},
		{
			ID: "M07", Name: "member order", Checks: "JSON with its members in another order is refused or replayed, and never carried out again.",
			Source: comparing, Severity: Critical, Needs: []Need{twoMembers()}, Why: "Clients that build the body again for each try pay twice.",
			Fix: "Compare before the work begins; a canonical form of JSON is kinder to clients.", run: otherOrder,
		},
		{
			ID: "M08", Name: "white space", Checks: "JSON with other white space is refused or replayed, and never carried out again.", Source: comparing,
			Severity: Critical, Needs: []Need{aJSONBody()}, Why: "Clients that build the body again for each try pay twice.",
			Fix: "Compare before the work begins; a canonical form of JSON is kinder to clients.", run: otherSpace,
		},
		{
			ID: "M09", Name: "precision", Checks: "Numbers that differ only beyond what a float64 can hold are different.", Source: "RFC 8259 §6",
			Severity: Critical, Needs: []Need{aJSONObject()}, Why: "A request about another account number gets the first one's answer.",
			Fix: "Compare numbers as they are written.", run: precision,
		},
		{
			ID: "M10", Name: "duplicate member", Checks: "A member that is there twice is not the same as its last one alone.", Source: "RFC 8259 §4",
			Severity: Major, Needs: []Need{aJSONObject()}, Why: "What was compared is not what another parser carries out.",
			Fix: "Refuse duplicate members, or compare bytes.", run: duplicateMember,
		},
		{
			ID: "M11", Name: "other headers", Checks: "A retry with another traceparent is a retry.", Source: "Trace Context §3; OASIS Repeatable Requests 1.0",
			Severity: Major, Why: "Every retry has its own span: clients with tracing can never retry.",
			Fix: "Leave out of the fingerprint what proxies and libraries change.", run: otherHeaders,
		},
		{
			ID: "M12", Name: "error document", Checks: "A mismatch is a problem document with a link to the rules.", Source: draft + " §2.7; RFC 9457",
			Severity: Minor, Draft: true, Profiles: profilesWith(func(r Rules) bool { return r.Problem }), Needs: []Need{aChangingBody()},
			Why: "Developers see 422 and do not learn why.", Fix: "Answer application/problem+json whose type is a page that exists, or a Link with rel=describedby.",
			run: errorDocument,
		},
		{
			ID: "M13", Name: "refusals are not kept", Checks: "However many mismatches there were, the first request's answer stays.", Source: draft + " §2.6",
			Severity: Critical, Needs: []Need{aChangingBody()}, Why: "The answer to a payment is lost: the client sees an error for ever.",
			Fix: "Never save what the layer itself has answered.", run: refusalsNotKept,
		},
		{
			ID: "M14", Name: "other host", Checks: "The same request to another host does not get the first host's answer.", Source: comparing + "; RFC 9110 §7.1",
			Severity: Critical, Needs: []Need{needs("other_host: another host that the target answers for, such as another tenant's", func(r *Recipe) bool {
				return r.OtherHost != ""
			})},
			Why: "What one tenant asks for is never done, and it is shown what another one has.",
			Fix: "The host belongs to the fingerprint, or to the key's scope.", run: otherHost,
		},
		{
			ID: "M15", Name: "method override", Checks: "A request whose X-HTTP-Method-Override is another does not get the first one's answer.", Source: comparing,
			Severity: Major, Why: "The client believes that something was deleted that was only changed.",
			Fix: "Where such a header decides what is done, it belongs to the fingerprint.", run: methodOverride,
		},
	}
}

func anotherRoute() Need {
	return needs("variants.other: a request that creates something at another path", func(r *Recipe) bool { return r.Variants.Other != nil })
}

func aBody() Need {
	return needs("a request.body", func(r *Recipe) bool { return r.Request.Body != "" })
}

func aJSONObject() Need {
	return needs("a request.body that is a JSON object", func(r *Recipe) bool { return len(r.Request.members()) > 0 })
}

func twoMembers() Need {
	return needs("a request.body that is a JSON object with two members", func(r *Recipe) bool { return len(r.Request.members()) > 1 })
}
