package cases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// emptyKey plays K06. An empty header and two quotes with nothing between them are both empty keys in profiles with
// quoted keys. Elsewhere two quotes are a key of two characters, so sharing it is only a WARN.
func emptyKey(t *run) {
	if t.keyInBody() || t.recipe.KeyQuery != "" {
		shareEmptyKey(t, "an empty key", probe.Fail, t.Keyed(t.Fresh(), ""), t.Keyed(t.Fresh(), ""))
		return
	}
	opaqueKeys := t.rules.Quotes != profile.Accepted
	verdict := probe.Fail
	if opaqueKeys {
		verdict = probe.Warn // where quotes are a part of the key this is one of two characters
	}
	shareEmptyKey(t, "an empty header", probe.Fail, t.RawKeyed(t.Fresh(), ""), t.RawKeyed(t.Fresh(), ""))
	shareEmptyKey(t, "an empty string in quotes", verdict, t.RawKeyed(t.Fresh(), `""`), t.RawKeyed(t.Fresh(), `""`))
	if !opaqueKeys {
		t.WantEffects(0)
	}
}

// shareEmptyKey sends two requests for different intents with the same empty key, and notes the verdict if they share a
// result.
func shareEmptyKey(t *run, what string, verdict probe.Verdict, one, two wire.Request) {
	a, b := t.Send(what, one), t.Send(what+", another request", two)
	if !wantAnswer(t, what, a) || !wantAnswer(t, what, b) {
		return
	}
	switch {
	case a.OK() && isReplay(t, a, b):
		t.Notef(verdict, "two different requests with %s (%d, %d) share one answer: the second never ran", what,
			a.No, b.No)
	case t.rules.Quotes == profile.Accepted:
		wantKeyRefused(t, what, a)
		wantKeyRefused(t, what, b)
	default:
		t.Infof("a request with %s got %d (%d), another one %d (%d)", what, a.Status, a.No, b.Status, b.No)
	}
}

// nonASCII plays K10 with keys that a collation or a Unicode normalisation may merge: é and è, é and e, and é as one
// and as two code points.
func nonASCII(t *run) {
	key := letters()[:24]
	keys := []string{"k\u00e9" + key, "k\u00e8" + key, "ke\u0301" + key, "ke" + key}
	if !t.keyInBody() {
		keys = append(keys, "k\xe9"+key) // Latin-1, as many header parsers have it; JSON cannot carry it
	}
	wantAllApart(t, keys)
}

// oddKeys plays K11. The first two keys are the ones that the others would reach if a server decoded them, matched
// patterns with them, or put them into a path or a statement.
func oddKeys(t *run) {
	key := letters()[:16]
	keys := []string{
		key, key + "x",
		key + "%78", key + "%0d%0ax", key + "\tx", key + "*", key + "?", key + "[x]", key + "%", key + "{}", key + "/.",
		key + "/../" + key, key + "' OR '1'='1", key + "'; --", key + "\\x", key + `"x`, key + "${x}", key + "#x",
	}
	if !t.keyInBody() {
		keys = append(keys, key+"\x01x", key+"\x00x", key+"\x7fx")
	}
	wantAllApart(t, keys)
}

// wantAllApart notes a FAIL unless each key is refused, or is a key of its own. Without a set-up all requests have the
// same body, so a key that stands for another one gets a replay instead of a mismatch.
func wantAllApart(t *run, keys []string) {
	type use struct {
		key     string
		request wire.Request
		first   wire.Answer
	}
	var used []use
	alike := t.alike()
	for _, key := range keys {
		r := t.Keyed(alike(), key)
		a := t.Send(shownKey(key), r)
		if !wantAnswer(t, "the key "+shownKey(key), a) {
			continue
		}
		for _, other := range used {
			if shows(t, other.first, a) {
				t.Failf("the key %s (%d) got the answer to the key %s (%d)", shownKey(key), a.No, shownKey(other.key), other.first.No)
				return
			}
		}
		switch {
		case len(used) > 0 && saysUsed(t, a):
			t.Failf("the key %s (%d) counts as an earlier key: %d %s", shownKey(key), a.No, a.Status, body(a))
			return
		case a.OK():
			used = append(used, use{key, r, a})
		default:
			wantKeyRefused(t, "the key "+shownKey(key), a)
		}
	}
	var answers []wire.Answer
	for _, k := range used {
		again := t.Send(shownKey(k.key)+" again", k.request)
		if !wantReplay(t, k.first, again) {
			t.Failf("the key %s (%d) is accepted but ignored: a retry runs again", shownKey(k.key), k.first.No)
		}
		answers = append(answers, k.first, again)
	}
	t.WantEffects(len(used), answers...)
}

// saysUsed reports whether a refusal says that the key was used before: for another body, if the key is a part of that.
func saysUsed(t *run, a wire.Answer) bool {
	text := t.rules.MismatchText
	return slices.Contains(t.rules.Mismatch, a.Status) &&
		(!t.rules.Replays || text != "" && strings.Contains(string(a.Plain()), text))
}

// shownKey returns a key with its invisible bytes written out.
func shownKey(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		if c >= ' ' && c <= '~' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}
