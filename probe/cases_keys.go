package probe

import "slices"

const (
	draftSyntax = draft + " §2.1; RFC 9651 §3.3.3"
	parsing     = "RFC 9651 §4.2"
	opaque      = "a key is the bytes that the client has sent"
)

// keySyntax: what a key may look like, and what is made of one that is none.
func keySyntax() []Case {
	return slices.Concat(quotes(), malformed(), lengths(), characters(), sameKeys())
}

// quotes: keys with them and without.
func quotes() []Case {
	inHeader := profilesWith(Rules.inHeader)
	return []Case{
		{
			ID: "K01", Name: "quoted key", Checks: "A key in quotes, as the draft has it, works.", Source: draftSyntax, Severity: Major, Draft: true,
			Profiles: inHeader, Why: "Clients that follow the draft are refused, or are not protected.",
			Fix: "Read the header as a structured-field string.", run: quotedKey,
		},
		{
			ID: "K02", Name: "bare key", Checks: "A key without quotes is taken as the profile says.", Source: draftSyntax, Severity: Major, Draft: true,
			Profiles: inHeader, Why: "Most clients send no quotes. If theirs are ignored they pay twice.",
			Fix: "Take what is not quoted as the key, or refuse it with 400. Never run as if there were none.", run: bareKey,
		},
		{
			ID: "K03", Name: "quoted and bare", Checks: "A key is the same with quotes and without.", Source: draftSyntax, Severity: Critical, Draft: true,
			Profiles: inHeader, Why: "A retry by another library, or through a gateway that parses headers, runs again.",
			Fix: "Take the quotes off before the key is looked up.", run: quotedIsBare,
		},
	}
}

// malformed: what is no key.
func malformed() []Case {
	inHeader := profilesWith(Rules.inHeader)
	return []Case{
		{
			ID: "K04", Name: "malformed key", Checks: "A key whose quotes do not end is refused with 400, and nothing happens.", Source: parsing,
			Severity: Critical, Safe: true, Profiles: inHeader, Why: "The client believes that it is protected, and is not.",
			Fix: "Answer 400 before the work begins when the header is there and cannot be read.", run: unterminated,
		},
		{
			ID: "K05", Name: "bad escape", Checks: "A key with an escape that does not exist is refused with 400, and nothing happens.",
			Source: "RFC 9651 §4.2.5", Severity: Major, Profiles: inHeader, Why: "Two parsers make two keys of it, and a retry runs again.",
			Fix: `Only \" and \\ are escapes in a structured-field string; refuse the others.`, run: badEscape,
		},
		{
			ID: "K06", Name: "empty key", Checks: "An empty key is no key that requests can share.", Source: draft + " §5", Severity: Critical, Safe: true,
			Needs: []Need{aChangingBody()}, Why: "All clients with the same mistake get the first one's answer, and their requests never run.",
			Fix: "Refuse an empty key with 400.", run: emptyKey,
		},
	}
}

// lengths: keys up to the limit and beyond.
func lengths() []Case {
	return []Case{
		{
			ID: "K07", Name: "longest key", Checks: "A key of the greatest length that the profile promises works.", Source: "limits of the profile",
			Severity: Major, Why: "Clients that keep to the documented limit are refused.", Fix: "Make the key's column wide enough.", run: longestKey,
		},
		{
			ID: "K08", Name: "too long", Checks: "A key that is one character longer is refused, or works in full.", Source: "limits of the profile",
			Severity: Major, Why: "A key that is cut stands for others.", Fix: "Refuse keys above the limit with 400. Never cut them.", run: tooLong,
		},
		{
			ID: "K09", Name: "truncation", Checks: "Two keys of 300 characters that differ only behind the 255th are not the same.", Source: opaque,
			Severity: Critical, Safe: true, Why: "Two customers' requests are taken for one: the second never happens.",
			Fix: "Refuse what does not fit, or store a hash of the whole key.", run: truncation,
		},
	}
}

// characters: keys of other bytes, and several of them.
func characters() []Case {
	inHeader := profilesWith(Rules.inHeader)
	return []Case{
		{
			ID: "K10", Name: "other characters", Checks: "Keys that are not ASCII are refused, or told apart byte for byte.", Source: opaque, Severity: Major,
			Why: "A collation or a conversion merges keys, or the server breaks.", Fix: "Refuse what is not visible ASCII, or keep keys in a binary column.",
			run: nonASCII,
		},
		{
			ID: "K11", Name: "odd keys", Checks: "Control characters, escapes, patterns and SQL in a key are refused or mean nothing.", Source: opaque,
			Severity: Critical, Why: "Who can choose a key can reach another's, or break the server.",
			Fix: "Hand the key to the store as a parameter; never decode it, match by it or put it into a path.", run: oddKeys,
		},
		{
			ID: "K12", Name: "two lines", Checks: "A request with two keys is refused, or at least runs once.", Source: parsing, Severity: Critical,
			Profiles: inHeader, Why: "A gateway and the API each take another of the two, and a retry runs again.",
			Fix: "Answer 400 to more than one line.", run: twoLines,
		},
	}
}

// sameKeys: what makes two keys the same.
func sameKeys() []Case {
	inHeader, draftOnly := profilesWith(Rules.inHeader), profilesWith(func(r Rules) bool { return r.Quotes == accepted })
	return []Case{
		{
			ID: "K13", Name: "parameters", Checks: "Parameters behind a key do not make another key of it.", Source: "RFC 9651 §2", Severity: Minor,
			Profiles: draftOnly, Why: "A library that adds a parameter one day makes retries run again.", Fix: "Parse parameters and leave them alone.",
			run: parameters,
		},
		{
			ID: "K14", Name: "case", Checks: "Keys that differ in case only are told apart as the profile says.", Source: opaque, Severity: Critical,
			Why: "Random keys with letters of both cases collide: somebody's request never happens.",
			Fix: "Keep keys in a column with a binary collation.", run: caseOfKeys,
		},
		{
			ID: "K15", Name: "white space", Checks: "White space around the key is no part of it.", Source: "RFC 9110 §5.5", Severity: Major, Profiles: inHeader,
			Why: "Proxies may add and remove it, and a retry runs again.", Fix: "Trim blanks and tabs around the header's value.", run: whiteSpace,
		},
		{
			ID: "K16", Name: "form of keys", Checks: "Keys need not be UUIDs, unless the profile says so; UUIDs work everywhere.", Source: draft + " §2.2",
			Severity: Major, Why: "Clients have to know which form of key is taken.", Fix: "Take UUIDs of 36 characters, and document any other limit.",
			run: formOfKeys,
		},
	}
}

// profilesWith are the names of the profiles whose rules say so.
func profilesWith(says func(Rules) bool) (names []string) {
	for _, name := range ProfileNames() {
		if says(Profiles()[name]) {
			names = append(names, name)
		}
	}
	return names
}

// inHeader reports whether the key is in a header.
func (r Rules) inHeader() bool { return r.Member == "" }
