package probe

import "slices"

// hygiene: a replay is an HTTP response like any other.
func hygiene() []Case {
	return slices.Concat(dates(), otherMethods(), otherForms(), otherAnswers(), onTheWay())
}

// dates: what a replay says of itself and of its connection.
func dates() []Case {
	return []Case{
		{
			ID: "H01", Name: "Date", Needs: []Need{someRetention()}, Checks: "A replay has the date of the replay.", Source: "RFC 9110 §6.6.1", Severity: Minor,
			Why: "Caches and clients take the answer for older than it is.", Fix: "Do not save Date: let the server set it.", run: freshDate,
		},
		{
			ID: "H02", Name: "framing", Checks: "A replay is framed as what it is, and has no field of the first connection.",
			Source: "RFC 9112 §6; RFC 9110 §7.6.1; RFC 9111 §3.1", Severity: Major,
			Why: "What follows on the connection is misread: somebody gets somebody else's answer.",
			Fix: "Leave Connection, what it names, Transfer-Encoding and Content-Length out of what is saved.", run: framedRight,
		},
		{
			ID: "H03", Name: "Age", Needs: []Need{someRetention()}, Checks: "A replay has no Age: it does not come from a cache.", Source: "RFC 9111 §5.1", Severity: Minor,
			Why: "Clients and proxies take it for a cached answer, and may ask again past it.", Fix: "Do not save Age, and send none.", run: noAge,
		},
	}
}

// otherMethods: requests that are no POST.
func otherMethods() []Case {
	return []Case{
		{
			ID: "H04", Name: "key on GET", Checks: "A key on GET does nothing: the answer is what there is now.", Source: "RFC 9110 §9.2.1; OASIS Repeatable Requests 1.0 §2",
			Severity: Major, Safe: true, Needs: []Need{aReadVariant()}, Why: "A client that sends its key with every request reads what was there long ago.",
			Fix: "Look at keys with POST and PATCH only, or with the methods that you say.", run: keyOnGet,
		},
		{
			ID: "H05", Name: "PUT and DELETE", Checks: "Where keys work on PUT and DELETE, a retry gets the first answer, not 404.",
			Source: "OASIS Repeatable Requests 1.0 §2; RFC 9110 §9.2.2", Severity: Major, Needs: []Need{putAndDelete()},
			Why: "A client that has not heard that its DELETE worked is told that there was nothing.", Fix: "Save the answers of these methods too.", run: keyOnPutAndDelete,
		},
	}
}

// otherForms: the same request sent in another way.
func otherForms() []Case {
	return []Case{
		{
			ID: "H06", Name: "Expect", Checks: "With Expect: 100-continue a retry gets a whole answer, and the connection can be used on.",
			Source: "RFC 9110 §10.1.1", Severity: Major, Why: "The body of a retry is read as the next request.",
			Fix: "Read the body, or say Connection: close, when you answer before it has come.", run: expectReplay,
		},
		{
			ID: "H07", Name: "Expect, malformed key", Checks: "With Expect: 100-continue a malformed key is refused before the body is asked for.",
			Source: "RFC 9110 §10.1.1", Severity: Minor, Profiles: []string{"ietf", "ietf-strict"}, Why: "Clients send bodies for nothing.",
			Fix: "Look at the key before you read the body.", run: expectMalformed,
		},
		{
			ID: "H08", Name: "chunks", Checks: "The same bytes framed in another way are the same request.", Source: "RFC 9110 §6.4; RFC 9112 §6", Severity: Major,
			Why: "A proxy frames bodies as it likes: a retry through another one is refused, or runs again.",
			Fix: "Compare bytes, not Content-Length or Transfer-Encoding.", run: otherFraming,
		},
		{
			ID: "H09", Name: "gzip", Checks: "A retry that accepts other codings gets the same answer in a coding that it is told.", Source: "RFC 9110 §8.4, §12.5.3",
			Severity: Major, Why: "The client cannot read the answer that it has retried for.",
			Fix: "Compress outside the layer that saves answers, or save Content-Encoding with them.", run: otherCoding,
		},
		{
			ID: "H10", Name: "If-Match", Checks: "A retry of a PATCH with If-Match gets the first answer, not 412.", Source: "OASIS Repeatable Requests 1.0 §5; RFC 9110 §13",
			Severity: Major, Needs: []Need{aPatchVariant()}, Why: "A client that has not heard that its change worked is told that somebody else made one.",
			Fix: "Look the key up before preconditions are evaluated.", run: keyBeforePrecondition,
		},
	}
}

// otherAnswers: answers that are no plain 201.
func otherAnswers() []Case {
	return []Case{
		{
			ID: "H11", Name: "202", Checks: "A retry of an asynchronous request gets the Location of the same job.", Source: "RFC 9110 §15.3.3", Severity: Critical,
			Needs: []Need{anAsyncVariant()}, Why: "Two jobs do the work twice.", Fix: "Start the job and save the answer in one atomic step.", run: sameJob,
		},
		{
			ID: "H12", Name: "103 and trailers", Checks: "Informational responses are not saved as the answer, and trailers stay trailers.",
			Source: "RFC 9110 §15.2, §6.5", Severity: Major, Needs: []Need{anInformedVariant()}, Why: "A retry never gets its answer, or cannot read it.",
			Fix: "Save the final response; send saved trailers as trailers, or not at all.", run: interimAndTrailers,
		},
		{
			ID: "H18", Name: "303", Checks: "A retry of a request that was answered 303 gets the same Location, and nothing runs again.", Source: "RFC 9110 §15.4.4",
			Severity: Critical, Needs: []Need{aSeeOtherVariant()},
			Why: "The browser that loses the answer to its form pays twice.", Fix: "A 3xx is a definite answer: save it as a 2xx.", run: sameSeeOther,
		},
		{
			ID: "H13", Name: "large answer", Checks: "An answer of more than 1 MiB is replayed whole, or it is said that it is not; nothing runs again.",
			Source: always, Severity: Critical, Safe: true, Needs: []Need{aLargeVariant()}, Why: "An answer that is too large to be saved makes the retry run again.",
			Fix: "Keep the key whatever becomes of the answer, and say that the body was left out.", run: largeAnswer,
		},
	}
}

// onTheWay: what clients, browsers and proxies do on the way.
func onTheWay() []Case {
	return []Case{
		{
			ID: "H14", Name: "request id", Checks: "A replay has a request id of its own.", Source: "Stripe (Request-Id, Original-Request)", Severity: Minor,
			Why: "Two requests have one id in the logs.", Fix: "Do not save the request id; send the first one's in another header.", run: freshRequestID,
		},
		{
			ID: "H15", Name: "CORS", Checks: "What browsers may send and see is recorded.", Source: "Fetch §3.3 (CORS protocol)", Severity: Minor, run: crossOrigin,
		},
		{
			ID: "H16", Name: "early data", Checks: "A request in early data is refused with 425, which is not saved, or carried out once.", Source: "RFC 8470 §5",
			Severity: Critical, Why: "Early data can be replayed by anybody on the way.",
			Fix: "Answer 425 to POST with Early-Data: 1, without recording anything.", run: earlyData,
		},
		{
			ID: "H17", Name: "redirect", Checks: "A client that follows a 307 or 308 with its key has one effect, retries too.", Source: "RFC 9110 §15.4.8, §15.4.9",
			Severity: Critical, Needs: []Need{aRedirectVariant()}, Why: "The client cannot tell which of the two requests has used its key.",
			Fix: "Redirect before the key is looked at, and let a redirect free it.", run: followedRedirect,
		},
		{
			ID: "H19", Name: "upgrade", Checks: "A request that offers to go on in HTTP/2 is carried out under its key, and no tunnel is opened.", Source: "RFC 9110 §7.8; RFC 9113 §3.1",
			Severity: Major, Why: "What goes through a tunnel passes by the layer that knows about keys.",
			Fix: "Leave Upgrade out of what is forwarded, but for protocols that you mean.", run: upgrade,
		},
		{
			ID: "H20", Name: "two framings", Checks: "After a request with Content-Length and Transfer-Encoding the connection is closed.", Source: "RFC 9112 §6.3", Severity: Major,
			Why: "A proxy in between may have read the other length, so that what follows is a smuggled request.",
			Fix: "Refuse it with 400, or close the connection behind the answer.", run: twoFramings,
		},
	}
}

func aReadVariant() Need {
	return needs("variants.read: a GET that shows what the request changes", func(r *Recipe) bool { return r.Variants.Read != nil })
}

func putAndDelete() Need {
	return needs("variants.put and variants.delete: of the same thing", func(r *Recipe) bool { return r.Variants.Put != nil && r.Variants.Delete != nil })
}

func aPatchVariant() Need {
	return needs("variants.patch, with If-Match; with variants.put it gets the ETag of what that makes", func(r *Recipe) bool { return r.Variants.Patch != nil })
}

func anAsyncVariant() Need {
	return needs("variants.async: a request that is answered 202 with a Location", func(r *Recipe) bool { return r.Variants.Async != nil })
}

func anInformedVariant() Need {
	return needs("variants.informed: a request that is answered with a 103 or with trailers", func(r *Recipe) bool { return r.Variants.Informed != nil })
}

func aLargeVariant() Need {
	return needs("variants.large: a request that is answered with more than 1 MiB", func(r *Recipe) bool { return r.Variants.Large != nil })
}

func aSeeOtherVariant() Need {
	return needs("variants.see_other: a request that is carried out and answered 303 with a Location", func(r *Recipe) bool { return r.Variants.SeeOther != nil })
}

func aRedirectVariant() Need {
	return needs("variants.redirect: a request that is answered 307 or 308", func(r *Recipe) bool { return r.Variants.Redirect != nil })
}
