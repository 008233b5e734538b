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
			Checks: "A key in double quotes, the form that the IETF draft defines, works.",
			Why:    "Clients that follow the draft are refused, or their retries run again.",
			Fix:    "Parse the key's header as a structured-field string (RFC 9651).",
			Source: draftSyntax, Profiles: s.profilesWith(inHeader), Play: s.play(quotedKey),
		},
		{
			ID: "K02", Name: "bare key", Severity: probe.Major, Draft: true,
			Checks: "A key without quotes is accepted or refused, as the profile says. It is never ignored.",
			Why: "Most clients send keys without quotes. If the server ignores such a key, a retry runs again " +
				"and the customer pays twice.",
			Fix: "Accept the unquoted value as the key, or answer 400. Never run the operation as if the request " +
				"had no key.",
			Source: draftSyntax, Profiles: s.profilesWith(inHeader), Play: s.play(bareKey),
		},
		{
			ID: "K03", Name: "quoted and bare", Severity: probe.Critical, Draft: true,
			Checks: "A key with quotes and the same key without quotes are one key.",
			Why:    "A retry from another library, or through a gateway that rewrites headers, runs again.",
			Fix:    "Remove the quotes before you look the key up.",
			Source: draftSyntax, Profiles: s.profilesWith(inHeader), Play: s.play(quotedIsBare),
		},
		{
			ID: "K04", Name: "malformed key", Severity: probe.Critical, Safe: true,
			Checks: "A key with an opening quote but no closing quote is refused with 400, and nothing runs.",
			Why:    "The client believes that it can retry safely, but its retry runs again.",
			Fix:    "If the key's header is present but cannot be parsed, answer 400 before the operation runs.",
			Source: parsing, Profiles: s.profilesWith(inHeader), Play: s.play(unterminated),
		},
		{
			ID: "K05", Name: "bad escape", Severity: probe.Major,
			Checks: `A key with an undefined escape such as \q is refused with 400, and nothing runs.`,
			Why:    "Two parsers read two different keys from the same header, so a retry runs again.",
			Fix:    `Accept only the escapes \" and \\ in a structured-field string, and answer 400 to all others.`,
			Source: "RFC 9651 §4.2.5", Profiles: s.profilesWith(inHeader), Play: s.play(badEscape),
		},
		{
			ID: "K06", Name: "empty key", Severity: probe.Critical, Safe: true,
			Checks: "Two different requests with an empty key do not share one answer.",
			Why: "All clients that send an empty key by mistake get the answer of the first one, and their own " +
				"operations never run.",
			Fix:    "Answer 400 to an empty key.",
			Source: draft + " §5", Needs: s.needs(changingBody), Play: s.play(emptyKey),
		},
		{
			ID: "K07", Name: "longest key", Severity: probe.Major,
			Checks: "A key of the maximum length that the profile promises works.",
			Why:    "Clients that keep to the documented limit are refused.",
			Fix:    "Make the database column for keys wide enough for the documented limit.",
			Source: "limits of the profile", Play: s.play(longestKey),
		},
		{
			ID: "K08", Name: "too long", Severity: probe.Major,
			Checks: "A key that is one character too long for the profile is refused, or works without being cut.",
			Why:    "If the server cuts keys, two different keys become one, and the second operation never runs.",
			Fix:    "Answer 400 to keys that are longer than the limit. Never cut them.",
			Source: "limits of the profile", Play: s.play(tooLong),
		},
		{
			ID: "K09", Name: "truncation", Severity: probe.Critical, Safe: true,
			Checks: "Two keys of 300 characters that differ only after the 255th character are different keys, " +
				"or both are refused.",
			Why:    "The requests of two customers are taken for one, and the second operation never runs.",
			Fix:    "Answer 400 to a key that does not fit, or store a hash of the whole key.",
			Source: opaque, Play: s.play(truncation),
		},
		{
			ID: "K10", Name: "non-ASCII keys", Severity: probe.Major,
			Checks: "Keys with characters outside ASCII are refused, or compared byte for byte.",
			Why:    "A database collation or a character conversion merges different keys, or the server fails.",
			Fix:    "Answer 400 to keys that are not visible ASCII, or store keys in a binary column.",
			Source: opaque, Play: s.play(nonASCII),
		},
		{
			ID: "K11", Name: "hostile keys", Severity: probe.Critical,
			Checks: "Control characters, escapes, wildcards, paths and SQL in a key are refused, or have no " +
				"special meaning.",
			Why: "A caller with such a key can reach another caller's record or make the server fail.",
			Fix: "Pass the key to the store as a parameter. Do not decode it, match patterns with it, or put it " +
				"into a path or statement.",
			Source: opaque, Play: s.play(oddKeys),
		},
		{
			ID: "K12", Name: "two header lines", Severity: probe.Critical,
			Checks: "A request with two keys is refused, or at least runs only once.",
			Why:    "A gateway and the API may each use a different one of the two keys, so a retry runs again.",
			Fix:    "Answer 400 to a request with more than one line of the key's header.",
			Source: parsing, Profiles: s.profilesWith(inHeader), Play: s.play(twoLines),
		},
		{
			ID: "K13", Name: "parameters", Severity: probe.Minor,
			Checks: "Parameters after a quoted key, such as ;v=1, do not change the key.",
			Why:    "When a client library starts to send a parameter, its retries run again.",
			Fix:    "Parse the parameters, and ignore those that you do not know.",
			Source: "RFC 9651 §2", Profiles: s.profilesWith(takesQuotes), Play: s.play(parameters),
		},
		{
			ID: "K14", Name: "case", Severity: probe.Critical,
			Checks: "Keys that differ only in upper and lower case are different keys, unless the profile says " +
				"otherwise.",
			Why:    "Random keys in mixed case collide, and a customer's operation never runs.",
			Fix:    "Store keys in a column with a binary, case-sensitive collation.",
			Source: opaque, Play: s.play(caseOfKeys),
		},
		{
			ID: "K15", Name: "white space", Severity: probe.Major,
			Checks: "Spaces and tabs around the key in its header are not part of the key.",
			Why:    "Proxies may add or remove them, so a retry runs again.",
			Fix:    "Trim spaces and tabs from both ends of the header's value.",
			Source: "RFC 9110 §5.5", Profiles: s.profilesWith(inHeader), Play: s.play(whiteSpace),
		},
		{
			ID: "K16", Name: "key format", Severity: probe.Major,
			Checks: "A UUID works as a key. A key of another format is refused or works too.",
			Why:    "A client whose keys are refused or ignored cannot retry safely.",
			Fix:    "Accept UUIDs of 36 characters. Answer 400 to formats that you do not support, and document them.",
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

// sendTwice sends a request twice with that value as the key, and reports whether the value worked as a key. A key that
// is accepted and does not protect is worse than one that is refused: the client relies on it.
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
		t.Infof("%s works as a key (%d, %d)", what, first.No, again.No)
		return true
	}
	t.Warnf("%s is accepted (%d) but ignored: the same request again (%d) got %d, which is not the first answer",
		what, first.No, again.No, again.Status)
	return false
}

// wantRefusedTwice notes a FAIL unless the request is refused and nothing runs. If it ran, it is sent again, to see
// whether the API ignores the key.
func wantRefusedTwice(t *run, what string, r wire.Request, first wire.Answer) {
	wantKeyRefused(t, what, first)
	if !first.OK() {
		t.WantEffects(0, first)
		return
	}
	again := t.Send(what+" again", r)
	if again.OK() && !shows(t, first, again) {
		t.Failf("DANGER: the retry (%d) ran again. The API ignores a key that it cannot parse. RFC 9651 §4.2 "+
			"allows that, but a client that sends such a key is not protected", again.No)
	}
	t.WantEffects(0, first, again)
}

// letters returns the 32 letters and digits of a new random UUID.
func letters() string { return strings.ReplaceAll(probe.NewUUID(), "-", "") }

// caseOfKeys plays K14. UUIDs contain only hexadecimal letters, so where keys must be UUIDs the first six characters
// make sure that there are some.
func caseOfKeys(t *run) {
	alike, upper := t.alike(), "AbC-"+letters()[:24]
	if t.rules.UUIDs {
		upper = "ABCDEF" + strings.ToUpper(newKey(t)[6:])
	}
	lower := strings.ToLower(upper)
	one := alike()
	other := one
	if !t.rules.FoldsCase {
		other = alike()
	}
	first := t.Send("upper case", t.Keyed(one, upper))
	if !wantAnswer(t, "a key in upper case", first) {
		return
	}
	if !first.OK() {
		t.Skipf("a key such as %s (%d) is refused with %d", upper, first.No, first.Status)
	}
	second := t.Send("lower case", t.Keyed(other, lower))
	switch {
	case t.rules.FoldsCase:
		wantReplay(t, first, second)
		t.WantEffects(1, first, second)
	case isReplay(t, first, second):
		t.Failf("%s (%d) and %s (%d) count as the same key", upper, first.No, lower, second.No)
	case wantAnswer(t, "the key in lower case", second):
		t.WantEffects(2, first, second)
	}
}

// formOfKeys plays K16. It also records, for clients, whether only UUIDs are accepted.
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
	case !wantAnswer(t, "a key that is not a UUID", a):
	case !a.OK():
		t.Infof("a key that is not a UUID (%d) is refused with %d", a.No, a.Status)
	case isReplay(t, a, t.Send("not a UUID, again", other)):
		t.Infof("a key that is not a UUID (%d) works", a.No)
	default:
		t.Failf("a key that is not a UUID (%d) is accepted but ignored: a retry runs again", a.No)
	}
	t.Observe(func(o *probe.Observed) { o.UUIDOnly = seen(!a.OK()) })
}
