package cases

import "github.com/retrysafe/retrysafe/probe"

// hygiene: a replay is an HTTP response like any other.
func hygiene(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "H01", Name: "Date", Severity: probe.Minor,
			Checks: "The Date of a replay is the time of the replay.",
			Why:    "Caches and clients believe that the answer is older than it is.",
			Fix:    "Do not save Date. Let the server set it for each answer.",
			Source: "RFC 9110 §6.6.1", Needs: s.needs(longRetention), Play: s.play(freshDate),
		},
		{
			ID: "H02", Name: "framing", Severity: probe.Major,
			Checks: "A replay is framed correctly, and repeats no connection-specific header of the first answer.",
			Why: "The client misreads what follows on the connection, and can get an answer meant for another " +
				"client.",
			Fix:    "Do not save Connection, the headers that it names, Transfer-Encoding and Content-Length.",
			Source: "RFC 9112 §6; RFC 9110 §7.6.1; RFC 9111 §3.1", Play: s.play(framedRight),
		},
		{
			ID: "H03", Name: "Age", Severity: probe.Minor,
			Checks: "A replay has no Age header, because it does not come from a cache.",
			Why: "Clients and proxies take the replay for a cached answer, and may send the request again to get " +
				"a fresh one.",
			Fix:    "Do not save or send Age.",
			Source: "RFC 9111 §5.1", Needs: s.needs(longRetention), Play: s.play(noAge),
		},
		{
			ID: "H04", Name: "key on GET", Severity: probe.Major, Safe: true,
			Checks: "A key on a GET has no effect: the client gets the current state.",
			Why:    "A client that sends a key with every request reads outdated data.",
			Fix:    "Use keys for POST and PATCH only, or only for the methods that you document.",
			Source: "RFC 9110 §9.2.1; OASIS Repeatable Requests 1.0 §2", Needs: s.needs(read), Play: s.play(keyOnGet),
		},
		{
			ID: "H05", Name: "PUT and DELETE", Severity: probe.Major,
			Checks: "If the API supports keys on PUT and DELETE, a retry gets the first answer, not 404.",
			Why:    "A client that did not receive the answer to its DELETE is told that there was nothing to delete.",
			Fix:    "Save the answers to PUT and DELETE too.",
			Source: "OASIS Repeatable Requests 1.0 §2; RFC 9110 §9.2.2",
			Needs:  s.needs(putAndDelete), Play: s.play(keyOnPutAndDelete),
		},
		{
			ID: "H06", Name: "Expect", Severity: probe.Major,
			Checks: "A retry with Expect: 100-continue gets a complete answer. Then the connection works for the " +
				"next request or is closed.",
			Why:    "The server reads the body of the retry as the next request.",
			Fix:    "If you answer before the body has arrived, read the body or send Connection: close.",
			Source: "RFC 9110 §10.1.1", Play: s.play(expectReplay),
		},
		{
			ID: "H07", Name: "Expect, malformed key", Severity: probe.Minor,
			Checks: "With Expect: 100-continue, a malformed key is refused before the server asks for the body.",
			Why:    "Clients upload bodies that are then refused.",
			Fix:    "Check the key before you read the body.",
			Source: "RFC 9110 §10.1.1", Profiles: s.profilesWith(hasProblems), Play: s.play(expectMalformed),
		},
		{
			ID: "H08", Name: "chunked body", Severity: probe.Major,
			Checks: "The same body, sent once with Content-Length and once in chunks, is the same request.",
			Why:    "Proxies change the framing of bodies. A retry through another proxy is refused or runs again.",
			Fix:    "Compare the bytes of the body, not Content-Length or Transfer-Encoding.",
			Source: "RFC 9110 §6.4; RFC 9112 §6", Play: s.play(otherFraming),
		},
		{
			ID: "H09", Name: "gzip", Severity: probe.Major,
			Checks: "A retry with a different Accept-Encoding gets the same answer in a coding that it accepts.",
			Why:    "The client cannot read the replay.",
			Fix: "Save the answer uncompressed, and compress it for each client outside the idempotency layer. " +
				"Send Content-Encoding.",
			Source: "RFC 9110 §8.4, §12.5.3", Play: s.play(otherCoding),
		},
		{
			ID: "H10", Name: "If-Match", Severity: probe.Major,
			Checks: "A retry of a PATCH with If-Match gets the first answer, not 412.",
			Why:    "A client that did not receive the answer to its own change is told that another client made one.",
			Fix:    "Look the key up before you evaluate preconditions.",
			Source: "OASIS Repeatable Requests 1.0 §5; RFC 9110 §13",
			Needs:  s.needs(patch), Play: s.play(keyBeforePrecondition),
		},
		{
			ID: "H11", Name: "202", Severity: probe.Critical,
			Checks: "A retry of an asynchronous request gets the Location of the same job.",
			Why:    "Two jobs run for one request, and the client knows of only one.",
			Fix:    "Start the job and save the answer in one atomic step.",
			Source: "RFC 9110 §15.3.3", Needs: s.needs(async), Play: s.play(sameJob),
		},
		{
			ID: "H12", Name: "103 and trailers", Severity: probe.Major,
			Checks: "A replay is the final response, not an interim one such as 103. Trailers are not replayed " +
				"as headers.",
			Why:    "The client that retries never gets its answer, or cannot read it.",
			Fix:    "Save the final response. Send saved trailers as trailers, or leave them out.",
			Source: "RFC 9110 §15.2, §6.5", Needs: s.needs(informed), Play: s.play(interimAndTrailers),
		},
		{
			ID: "H18", Name: "303", Severity: probe.Critical,
			Checks: "A retry of a request that was answered with 303 gets the same Location, and the operation " +
				"does not run again.",
			Why:    "A customer whose browser loses the answer to a form pays twice.",
			Fix:    "Save a 303 and its Location as the answer to the key, like a 2xx: the operation succeeded.",
			Source: "RFC 9110 §15.4.4", Needs: s.needs(seeOther), Play: s.play(sameSeeOther),
		},
		{
			ID: "H13", Name: "large answer", Severity: probe.Critical, Safe: true,
			Checks: "A replay of more than 1 MiB is complete, or says that its body was omitted. The operation " +
				"does not run again.",
			Why: "An answer that is too large to be saved makes the retry run again.",
			Fix: "Keep the key even if its answer cannot be saved. Say in the replay that the body was omitted, " +
				"for example by Idempotency-Status: replayed; body=?0.",
			Source: always, Needs: s.needs(large), Play: s.play(largeAnswer),
		},
		{
			ID: "H14", Name: "request id", Severity: probe.Minor,
			Checks: "A replay has its own request ID.",
			Why:    "Two requests have the same ID in the logs, and support cannot tell which is which.",
			Fix: "Do not save the request ID. If clients need the ID of the first request, send it in another " +
				"header.",
			Source: "Stripe (Request-Id, Original-Request)", Play: s.play(freshRequestID),
		},
		{
			ID: "H15", Name: "CORS", Severity: probe.Minor,
			Checks: "Recorded: whether web pages of other origins may send the key, and which headers they may read.",
			Source: "Fetch §3.3 (CORS protocol)", Play: s.play(crossOrigin),
		},
		{
			ID: "H16", Name: "early data", Severity: probe.Critical,
			Checks: "A request in TLS early data runs once, or is refused with 425 and runs when it is retried.",
			Why:    "An attacker on the network can replay early data.",
			Fix:    "Answer 425 to a POST with Early-Data: 1, and do not save anything.",
			Source: "RFC 8470 §5", Play: s.play(earlyData),
		},
		{
			ID: "H17", Name: "redirect", Severity: probe.Critical,
			Checks: "A client that follows a 307 or 308 with the same key causes one effect, also when it retries.",
			Why:    "If the redirect uses up the key, the redirected request is refused, or a retry runs again.",
			Fix:    "Redirect before you look the key up, or release the key after a redirect.",
			Source: "RFC 9110 §15.4.8, §15.4.9", Needs: s.needs(redirect), Play: s.play(followedRedirect),
		},
		{
			ID: "H19", Name: "upgrade", Severity: probe.Major,
			Checks: "A request that offers an upgrade to HTTP/2 (h2c) runs once, and the server does not switch " +
				"protocols.",
			Why:    "Requests inside the new protocol bypass the idempotency layer.",
			Fix:    "Do not forward the Upgrade header, except for protocols that you support on purpose.",
			Source: "RFC 9110 §7.8; RFC 9113 §3.1", Play: s.play(upgrade),
		},
		{
			ID: "H20", Name: "two framings", Severity: probe.Major,
			Checks: "The server refuses a request with both Content-Length and Transfer-Encoding, or closes its " +
				"connection.",
			Why:    "A proxy may have used the other length. The bytes that follow are then a smuggled request.",
			Fix:    "Answer 400, or close the connection after the answer.",
			Source: "RFC 9112 §6.3", Play: s.play(twoFramings),
		},
	}
}
