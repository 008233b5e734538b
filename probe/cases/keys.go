package cases

import (
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

const (
	draftSyntax = draft + " §2.1; RFC 9651 §3.3.3"
	parsing     = "RFC 9651 §4.2"
	opaque      = "a key is the bytes that the client has sent"
)

// keys: what a key may look like, and what becomes of one that cannot be read.
func keys(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "K01", Name: "quoted key", Severity: probe.Major, Draft: true,
			Checks: "A key in quotes, as the draft has it, works.",
			Why:    "Clients that follow the draft are refused, or are not protected.",
			Fix:    "Read the header as a structured-field string.",
			Source: draftSyntax, Profiles: headerProfiles, Play: s.play(quotedKey),
		},
		{
			ID: "K02", Name: "bare key", Severity: probe.Major, Draft: true,
			Checks: "A key without quotes is taken as the profile says.",
			Why:    "Most clients send no quotes. If theirs are ignored they pay twice.",
			Fix:    "Take what is not quoted as the key, or refuse it with 400. Never run as if there were none.",
			Source: draftSyntax, Profiles: headerProfiles, Play: s.play(bareKey),
		},
		{
			ID: "K03", Name: "quoted and bare", Severity: probe.Critical, Draft: true,
			Checks: "A key is the same with quotes and without.",
			Why:    "A retry by another library, or through a gateway that parses headers, runs again.",
			Fix:    "Take the quotes off before the key is looked up.",
			Source: draftSyntax, Profiles: headerProfiles, Play: s.play(quotedIsBare),
		},
		{
			ID: "K04", Name: "malformed key", Severity: probe.Critical, Safe: true,
			Checks: "A key whose quotes do not end is refused with 400, and nothing happens.",
			Why:    "The client believes that it is protected, and is not.",
			Fix:    "Answer 400 before the work begins when the header is there and cannot be read.",
			Source: parsing, Profiles: headerProfiles, Play: s.play(unterminated),
		},
		{
			ID: "K05", Name: "bad escape", Severity: probe.Major,
			Checks: "A key with an escape that does not exist is refused with 400, and nothing happens.",
			Why:    "Two parsers make two keys of it, and a retry runs again.",
			Fix:    `Only \" and \\ are escapes in a structured-field string; refuse the others.`,
			Source: "RFC 9651 §4.2.5", Profiles: headerProfiles, Play: s.play(badEscape),
		},
		{
			ID: "K06", Name: "empty key", Severity: probe.Critical, Safe: true,
			Checks: "An empty key is no key that requests can share.",
			Why:    "All clients with the same mistake get the first one's answer, and their requests never run.",
			Fix:    "Refuse an empty key with 400.",
			Source: draft + " §5", Needs: s.needs(changingBody), Play: s.play(emptyKey),
		},
		{
			ID: "K07", Name: "longest key", Severity: probe.Major,
			Checks: "A key of the greatest length that the profile promises works.",
			Why:    "Clients that keep to the documented limit are refused.",
			Fix:    "Make the key's column wide enough.",
			Source: "limits of the profile", Play: s.play(longestKey),
		},
		{
			ID: "K08", Name: "too long", Severity: probe.Major,
			Checks: "A key that is one character longer is refused, or works in full.",
			Why:    "A key that is cut stands for others.",
			Fix:    "Refuse keys above the limit with 400. Never cut them.",
			Source: "limits of the profile", Play: s.play(tooLong),
		},
		{
			ID: "K09", Name: "truncation", Severity: probe.Critical, Safe: true,
			Checks: "Two keys of 300 characters that differ only behind the 255th are not the same.",
			Why:    "Two customers' requests are taken for one: the second never happens.",
			Fix:    "Refuse what does not fit, or store a hash of the whole key.",
			Source: opaque, Play: s.play(truncation),
		},
		{
			ID: "K10", Name: "other characters", Severity: probe.Major,
			Checks: "Keys that are not ASCII are refused, or compared byte for byte.",
			Why:    "A collation or a conversion merges keys, or the server breaks.",
			Fix:    "Refuse what is not visible ASCII, or keep keys in a binary column.",
			Source: opaque, Play: s.play(nonASCII),
		},
		{
			ID: "K11", Name: "odd keys", Severity: probe.Critical,
			Checks: "Control characters, escapes, patterns and SQL in a key are refused or mean nothing.",
			Why:    "Who can choose a key can reach another's, or break the server.",
			Fix:    "Hand the key to the store as a parameter; never decode it, match by it or put it into a path.",
			Source: opaque, Play: s.play(oddKeys),
		},
		{
			ID: "K12", Name: "two lines", Severity: probe.Critical,
			Checks: "A request with two keys is refused, or at least runs once.",
			Why:    "A gateway and the API each take another of the two, and a retry runs again.",
			Fix:    "Answer 400 to more than one line.",
			Source: parsing, Profiles: headerProfiles, Play: s.play(twoLines),
		},
		{
			ID: "K13", Name: "parameters", Severity: probe.Minor,
			Checks: "Parameters behind a key do not make another key of it.",
			Why:    "A library that adds a parameter one day makes retries run again.",
			Fix:    "Parse parameters and leave them alone.",
			Source: "RFC 9651 §2", Profiles: draftProfiles, Play: s.play(parameters),
		},
		{
			ID: "K14", Name: "case", Severity: probe.Critical,
			Checks: "Keys that differ only in case are distinguished as the profile says.",
			Why:    "Random keys with letters of both cases collide: a customer's request never happens.",
			Fix:    "Keep keys in a column with a binary collation.",
			Source: opaque, Play: s.play(caseOfKeys),
		},
		{
			ID: "K15", Name: "white space", Severity: probe.Major,
			Checks: "White space around the key is no part of it.",
			Why:    "Proxies may add and remove it, and a retry runs again.",
			Fix:    "Trim blanks and tabs around the header's value.",
			Source: "RFC 9110 §5.5", Profiles: headerProfiles, Play: s.play(whiteSpace),
		},
		{
			ID: "K16", Name: "form of keys", Severity: probe.Major,
			Checks: "Keys need not be UUIDs, unless the profile says so; UUIDs work everywhere.",
			Why:    "Clients have to know which form of key is taken.",
			Fix:    "Take UUIDs of 36 characters, and document any other limit.",
			Source: draft + " §2.2", Play: s.play(formOfKeys),
		},
	}
}

// wantKeyRefused notes a FAIL unless the key was refused, as the profile has it.
func wantKeyRefused(t *run, what string, a wire.Answer) bool {
	switch {
	case !wantAnswer(t, what, a):
	case a.Status < 400:
		t.Failf("%s (%d) got %d; profile %s refuses it with %s", what, a.No, a.Status, t.rules.Name,
			statuses(t.rules.Malformed))
	case len(t.rules.Malformed) > 0 && !slices.Contains(t.rules.Malformed, a.Status):
		t.Failf("%s (%d) was refused with %d; profile %s says %s", what, a.No, a.Status, t.rules.Name,
			statuses(t.rules.Malformed))
	default:
		t.Observe(func(o *probe.Observed) { o.Malformed = a.Status })
		return true
	}
	return false
}

// sendTwice sends a request with that value as the key two times, and reports whether it worked as a key.
func sendTwice(t *run, what, value string, how profile.Taking) (worked bool) {
	r := t.RawKeyed(t.Fresh(), value)
	first := t.Send(what, r)
	switch {
	case how == profile.Refused:
		wantRefusedTwice(t, what, r, first)
		return false
	case !wantAnswer(t, what, first):
		return false
	case !first.OK() && how == profile.Open:
		t.Infof("%s (%d) is refused with %d", what, first.No, first.Status)
		return false
	case !first.OK():
		t.Failf("%s (%d) was refused with %d: %s", what, first.No, first.Status, body(first))
		return false
	}
	again := t.Send(what+" again", r)
	switch {
	case how == profile.Accepted:
		return wantReplay(t, first, again) && t.WantEffects(1, first, again)
	case isReplay(t, first, again):
		t.Infof("%s is taken as a key (%d, %d)", what, first.No, again.No)
		return true
	}
	t.Warnf("%s is accepted (%d) and does not protect: the same request again (%d) got %d and is not the first one's "+
		"retry",
		what, first.No, again.No, again.Status)
	return false
}

// wantRefusedTwice notes a FAIL unless nothing happens. A request that was carried out is sent again, to see what
// became of the key.
func wantRefusedTwice(t *run, what string, r wire.Request, first wire.Answer) {
	wantKeyRefused(t, what, first)
	if !first.OK() {
		t.WantEffects(0, first)
		return
	}
	again := t.Send(what+" again", r)
	if again.OK() && !shows(t, first, again) {
		t.Failf("DANGER: it was carried out again (%d). The API ignores a key that it cannot read, which RFC 9651 "+
			"§4.2 allows, "+
			"and which leaves a client that sends one unprotected", again.No)
	}
	t.WantEffects(0, first, again)
}

// letters are the 32 of a random key without dashes.
func letters() string { return strings.ReplaceAll(probe.NewUUID(), "-", "") }

func caseOfKeys(t *run) {
	r, upper := stamped(t, t.Fresh()), "AbC-"+letters()[:24]
	if t.rules.UUIDs {
		upper = "ABCDEF" + strings.ToUpper(probe.NewUUID()[6:])
	}
	lower := strings.ToLower(upper)
	first := t.Send("upper case", t.Keyed(r, upper))
	if !wantAnswer(t, "a key in upper case", first) {
		return
	}
	if !first.OK() {
		t.Skipf("a key such as %s (%d) is refused with %d", upper, first.No, first.Status)
	}
	second := t.Send("lower case", t.Keyed(r, lower))
	switch {
	case t.rules.FoldsCase:
		wantReplay(t, first, second)
		t.WantEffects(1, first, second)
	case isReplay(t, first, second):
		t.Failf("%s (%d) and %s (%d) are taken for the same key", upper, first.No, lower, second.No)
	case wantAnswer(t, "the key in lower case", second):
		t.WantEffects(2, first, second)
	}
}

func formOfKeys(t *run) {
	uuid := t.New()
	first := t.Send("a UUID", uuid)
	if !wantAnswer(t, "a UUID", first) {
		return
	}
	if !first.OK() {
		t.Failf("a key that is a UUID of 36 characters (%d) was refused with %d: %s", first.No, first.Status, body(first))
	} else {
		wantReplay(t, first, t.Send("the UUID again", uuid))
	}
	other := t.Keyed(t.Fresh(), "order_"+letters()[:24])
	a := t.Send("no UUID", other)
	switch {
	case !wantAnswer(t, "a key that is no UUID", a):
	case !a.OK():
		t.Infof("a key that is no UUID (%d) is refused with %d", a.No, a.Status)
	case isReplay(t, a, t.Send("no UUID again", other)):
		t.Infof("a key that is no UUID (%d) works", a.No)
	default:
		t.Failf("a key that is no UUID (%d) is accepted and does not protect", a.No)
	}
	t.Observe(func(o *probe.Observed) { o.UUIDOnly = seen(!a.OK()) })
}
