package cases

import "github.com/retrysafe/retrysafe/probe"

// hygiene: a replay is an HTTP response like any other.
func hygiene(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "H01", Name: "Date", Severity: probe.Minor,
			Checks: "A replay has the date of the replay.",
			Why:    "Caches and clients take the answer for older than it is.",
			Fix:    "Do not save Date: let the server set it.",
			Source: "RFC 9110 §6.6.1", Needs: s.needs(longRetention), Play: s.play(freshDate),
		},
		{
			ID: "H02", Name: "framing", Severity: probe.Major,
			Checks: "A replay is framed as what it is, and has no field of the first connection.",
			Why:    "What follows on the connection is misread: a client gets another client's answer.",
			Fix:    "Leave Connection, what it names, Transfer-Encoding and Content-Length out of what is saved.",
			Source: "RFC 9112 §6; RFC 9110 §7.6.1; RFC 9111 §3.1", Play: s.play(framedRight),
		},
		{
			ID: "H03", Name: "Age", Severity: probe.Minor,
			Checks: "A replay has no Age: it does not come from a cache.",
			Why:    "Clients and proxies take it for a cached answer, and may ask again past it.",
			Fix:    "Do not save Age, and send none.",
			Source: "RFC 9111 §5.1", Needs: s.needs(longRetention), Play: s.play(noAge),
		},
		{
			ID: "H04", Name: "key on GET", Severity: probe.Major, Safe: true,
			Checks: "A key on GET does nothing: the answer is what there is now.",
			Why:    "A client that sends its key with every request reads what was there long ago.",
			Fix:    "Look at keys with POST and PATCH only, or with the methods that you say.",
			Source: "RFC 9110 §9.2.1; OASIS Repeatable Requests 1.0 §2", Needs: s.needs(read), Play: s.play(keyOnGet),
		},
		{
			ID: "H05", Name: "PUT and DELETE", Severity: probe.Major,
			Checks: "Where keys work on PUT and DELETE, a retry gets the first answer, not 404.",
			Why:    "A client that has not heard that its DELETE worked is told that there was nothing.",
			Fix:    "Save the answers of these methods too.",
			Source: "OASIS Repeatable Requests 1.0 §2; RFC 9110 §9.2.2",
			Needs:  s.needs(putAndDelete), Play: s.play(keyOnPutAndDelete),
		},
		{
			ID: "H06", Name: "Expect", Severity: probe.Major,
			Checks: "With Expect: 100-continue a retry gets a whole answer, and the connection can be used on.",
			Why:    "The body of a retry is read as the next request.",
			Fix:    "Read the body, or say Connection: close, when you answer before it has come.",
			Source: "RFC 9110 §10.1.1", Play: s.play(expectReplay),
		},
		{
			ID: "H07", Name: "Expect, malformed key", Severity: probe.Minor,
			Checks: "With Expect: 100-continue a malformed key is refused before the body is asked for.",
			Why:    "Clients send bodies for nothing.",
			Fix:    "Look at the key before you read the body.",
			Source: "RFC 9110 §10.1.1", Profiles: []string{"ietf", "ietf-strict"}, Play: s.play(expectMalformed),
		},
		{
			ID: "H08", Name: "chunks", Severity: probe.Major,
			Checks: "The same bytes framed in another way are the same request.",
			Why:    "A proxy frames bodies as it likes: a retry through another one is refused, or runs again.",
			Fix:    "Compare bytes, not Content-Length or Transfer-Encoding.",
			Source: "RFC 9110 §6.4; RFC 9112 §6", Play: s.play(otherFraming),
		},
		{
			ID: "H09", Name: "gzip", Severity: probe.Major,
			Checks: "A retry that accepts other codings gets the same answer in a coding that it is told.",
			Why:    "The client cannot read the answer that it has retried for.",
			Fix:    "Compress outside the layer that saves answers, or save Content-Encoding with them.",
			Source: "RFC 9110 §8.4, §12.5.3", Play: s.play(otherCoding),
		},
		{
			ID: "H10", Name: "If-Match", Severity: probe.Major,
			Checks: "A retry of a PATCH with If-Match gets the first answer, not 412.",
			Why:    "A client that has not heard that its change worked is told that another client made one.",
			Fix:    "Look the key up before preconditions are evaluated.",
			Source: "OASIS Repeatable Requests 1.0 §5; RFC 9110 §13",
			Needs:  s.needs(patch), Play: s.play(keyBeforePrecondition),
		},
		{
			ID: "H11", Name: "202", Severity: probe.Critical,
			Checks: "A retry of an asynchronous request gets the Location of the same job.",
			Why:    "Two jobs do the work twice.",
			Fix:    "Start the job and save the answer in one atomic step.",
			Source: "RFC 9110 §15.3.3", Needs: s.needs(async), Play: s.play(sameJob),
		},
		{
			ID: "H12", Name: "103 and trailers", Severity: probe.Major,
			Checks: "Informational responses are not saved as the answer, and trailers stay trailers.",
			Why:    "A retry never gets its answer, or cannot read it.",
			Fix:    "Save the final response; send saved trailers as trailers, or not at all.",
			Source: "RFC 9110 §15.2, §6.5", Needs: s.needs(informed), Play: s.play(interimAndTrailers),
		},
		{
			ID: "H18", Name: "303", Severity: probe.Critical,
			Checks: "A retry of a request that was answered 303 gets the same Location, and nothing runs again.",
			Why:    "The browser that loses the answer to its form pays twice.",
			Fix:    "A 3xx is a definite answer: save it as a 2xx.",
			Source: "RFC 9110 §15.4.4", Needs: s.needs(seeOther), Play: s.play(sameSeeOther),
		},
		{
			ID: "H13", Name: "large answer", Severity: probe.Critical, Safe: true,
			Checks: "An answer of more than 1 MiB is replayed whole, or it is said that it is not; nothing runs again.",
			Why:    "An answer that is too large to be saved makes the retry run again.",
			Fix:    "Keep the key whatever becomes of the answer, and say that the body was left out.",
			Source: always, Needs: s.needs(large), Play: s.play(largeAnswer),
		},
		{
			ID: "H14", Name: "request id", Severity: probe.Minor,
			Checks: "A replay has a request id of its own.",
			Why:    "Two requests have one id in the logs.",
			Fix:    "Do not save the request id; send the first one's in another header.",
			Source: "Stripe (Request-Id, Original-Request)", Play: s.play(freshRequestID),
		},
		{
			ID: "H15", Name: "CORS", Severity: probe.Minor,
			Checks: "What browsers may send and see is recorded.",
			Source: "Fetch §3.3 (CORS protocol)", Play: s.play(crossOrigin),
		},
		{
			ID: "H16", Name: "early data", Severity: probe.Critical,
			Checks: "A request in early data is refused with 425, which is not saved, or carried out once.",
			Why:    "Early data can be replayed by any attacker on the way.",
			Fix:    "Answer 425 to POST with Early-Data: 1, without recording anything.",
			Source: "RFC 8470 §5", Play: s.play(earlyData),
		},
		{
			ID: "H17", Name: "redirect", Severity: probe.Critical,
			Checks: "A client that follows a 307 or 308 with its key has one effect, retries too.",
			Why:    "The client cannot tell which of the two requests has used its key.",
			Fix:    "Redirect before the key is looked at, and let a redirect free it.",
			Source: "RFC 9110 §15.4.8, §15.4.9", Needs: s.needs(redirect), Play: s.play(followedRedirect),
		},
		{
			ID: "H19", Name: "upgrade", Severity: probe.Major,
			Checks: "A request that offers to go on in HTTP/2 is carried out under its key, and no tunnel is opened.",
			Why:    "What goes through a tunnel passes by the layer that knows about keys.",
			Fix:    "Leave Upgrade out of what is forwarded, but for protocols that you mean.",
			Source: "RFC 9110 §7.8; RFC 9113 §3.1", Play: s.play(upgrade),
		},
		{
			ID: "H20", Name: "two framings", Severity: probe.Major,
			Checks: "After a request with Content-Length and Transfer-Encoding the connection is closed.",
			Why:    "A proxy in between may have read the other length, so that what follows is a smuggled request.",
			Fix:    "Refuse it with 400, or close the connection behind the answer.",
			Source: "RFC 9112 §6.3", Play: s.play(twoFramings),
		},
	}
}
