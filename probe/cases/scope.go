package cases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// scopes: a caller sees nothing that belongs to another one.
func scopes(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "X01", Name: "two callers", Severity: probe.Critical, Safe: true,
			Checks: "Another caller with the same key and the same body gets an answer of its own.",
			Why:    "A caller sees or replaces another caller's order.",
			Fix:    "Look keys up together with the caller that authentication has found, not alone.",
			Source: draft + " §5", Needs: s.needs(twoCredentials), Play: s.play(crossPrincipal),
		},
		{
			ID: "X02", Name: "no credential", Severity: probe.Critical, Safe: true,
			Checks: "A key without its credential opens nothing.",
			Why:    "A person who sees a key in a log can read the answer.",
			Fix:    "Authenticate before the key is looked up.",
			Source: draft + " §5; RFC 9110 §11", Needs: s.needs(oneCredential), Play: s.play(unauthenticated),
		},
		{
			ID: "X03", Name: "revoked", Severity: probe.Critical,
			Checks: "A credential that was taken away replays nothing.",
			Why:    "A caller that has been locked out still reads earlier answers.",
			Fix:    "Authorise every request, retries too, before the key is looked up.",
			Source: draft + " §5; RFC 9110 §15.5.4", Needs: s.needs(revokedCredential), Play: s.play(revoked),
		},
		{
			ID: "X04", Name: "guessed keys", Severity: probe.Critical, Safe: true,
			Checks: "Keys that are easily guessed show no other caller's data.",
			Why:    "Clients choose keys such as 1 or test: others guess them.",
			Fix:    "Make the caller a part of the key.",
			Source: draft + " §5", Needs: s.needs(twoCredentials), Play: s.play(guessedKeys),
		},
		{
			ID: "X05", Name: "errors that tell", Severity: probe.Major,
			Checks: "An error about a key shows neither the key nor the first request or its answer.",
			Why:    "Errors are logged, shown and forwarded: what is in them is no secret any more.",
			Fix:    "Say that the key was used with another request, and no more.",
			Source: draft + " §5", Needs: s.needs(changingBody), Play: s.play(tellingErrors),
		},
		{
			ID: "X06", Name: "cookies", Severity: probe.Major,
			Checks: "A replay sets no cookie of the first answer.",
			Why:    "A session that has ended, or has been changed for a new one, is set again.",
			Fix:    "Leave Set-Cookie out of what is saved.",
			Source: "RFC 6265 §3; RFC 9111 §7.3", Needs: s.needs(cookie), Play: s.play(cookiesAgain),
		},
		{
			ID: "X07", Name: "another credential", Severity: probe.Critical,
			Checks: "A caller whose credential changes from request to request has its keys all the same.",
			Why:    "Each retry with a fresh token or signature is a new caller, and runs again.",
			Fix: "Take who the caller is for its name, as authentication has found it, not what it has sent to " +
				"prove that.",
			Source: always, Needs: s.needs(oneCredential, laterCredential), Play: s.play(otherCredential),
		},
		{
			ID: "X08", Name: "unknown callers", Severity: probe.Major,
			Checks: "Callers without a credential do not get each other's answers.",
			Why:    "All whom the layer does not know have their keys in common: who guesses one reads the answer.",
			Fix:    "Refuse keys of callers that have no name, unless the answers are public.",
			Source: draft + " §5", Needs: s.needs(oneCredential), Play: s.play(unknownCallers),
		},
		{
			ID: "X09", Name: "revoked meanwhile", Severity: probe.Critical,
			Checks: "A caller whose credential has been taken away gets no replay.",
			Why:    "A caller that has been locked out still reads earlier answers.",
			Fix:    "Authorise the request before anything is replayed.",
			Source: draft + " §5; RFC 9110 §15.5.4",
			Needs:  s.needs(oneCredential, credentialHooks), Play: s.play(revokedMeanwhile),
		},
	}
}

func crossPrincipal(t *run) {
	r := t.New()
	a := t.First("caller A", r)
	b := t.Send("caller B, the same key and body", r.As(t.recipe.B))
	switch {
	case b.Status == 0:
		t.Brokenf("caller B got no answer: %v", b.Err)
	case discloses(t, b, a):
		t.Failf("caller B (%d) got what A had created, %q: %d %s", b.No, t.id(a), b.Status, body(b))
		return
	case b.OK():
		t.WantEffects(2, a, b)
		wantReplay(t, a, t.Send("caller A again", r))
		return
	}
	// B was refused: because of A's key, or because it may not do that at all.
	own := t.Send("caller B, a key of its own", t.Keyed(r, probe.NewUUID()).As(t.recipe.B))
	if !own.OK() {
		t.Brokenf("caller B cannot make the request under any key: %d %s", own.Status, body(own))
	}
	t.Failf("caller B (%d) was refused with %d because A has used the key; with another key (%d) it worked: keys are "+
		"shared",
		b.No, b.Status, own.No)
}

// discloses reports whether an answer shows what another one has created.
func discloses(t *run, a, other wire.Answer) bool {
	id := t.id(other)
	switch {
	case id == "":
		return len(other.Body) > 0 && a.OK() && a.Same(other)
	case t.id(a) == id:
		return true
	case len(id) < 3: // such a number may be part of any text
		return false
	}
	place := a.Header.Get("Location")
	return strings.Contains(string(a.Plain()), `"`+id+`"`) || place != "" && place == other.Header.Get("Location")
}

func unauthenticated(t *run) {
	r := t.New()
	wantBarred(t, "without a credential", r, anonymous(t, r))
}

func revoked(t *run) {
	r := t.New()
	wantBarred(t, "with the revoked credential", r, r.As(t.recipe.Revoked))
}

// wantBarred sends a request as A, and again as a caller who may not see the answer.
func wantBarred(t *run, how string, r, other wire.Request) {
	first := t.First("caller A", r)
	a := t.Send(how, other)
	switch {
	case a.Status == 0:
		t.Notef(probe.Broken, "the request %s got no answer: %v", how, a.Err)
	case discloses(t, a, first):
		t.Failf("the request %s (%d) got A's answer: %d %s", how, a.No, a.Status, body(a))
	case a.OK():
		// It was carried out: because of A's key, or because it always is.
		fresh := t.Send(how+", a new key", t.Keyed(other, probe.NewUUID()))
		if fresh.OK() {
			t.Skipf("requests %s are carried out, as another caller's: no caller is barred", how)
		}
		t.Failf("the request %s (%d) was carried out with %d; under a new key (%d) it got %d", how, a.No, a.Status, fresh.No,
			fresh.Status)
		return
	case a.ServerError():
		t.Failf("the request %s (%d) got %d", how, a.No, a.Status)
	default:
		wantSilentRefusal(t, "the request "+how, a)
	}
	t.WantEffects(1, first)
}

// wantSilentRefusal notes a WARN unless a refusal says nothing about the key.
func wantSilentRefusal(t *run, what string, a wire.Answer) {
	if !slices.Contains([]int{401, 403}, a.Status) {
		t.Warnf("%s (%d) got %d, which says something about the key; 401 or 403 says nothing", what, a.No, a.Status)
	}
}

// guessedKeys uses a key of six digits as A and asks for it as B, and then asks for keys that others may have used.
func guessedKeys(t *run) {
	seq := t.intents.Next().Seq
	planted := seq[max(0, len(seq)-6):]
	r := t.Keyed(t.Fresh(), planted)
	a := t.Send("caller A, key "+planted, r)
	b := t.Send("caller B, key "+planted, r.As(t.recipe.B))
	ran := slices.DeleteFunc([]wire.Answer{a, b}, func(a wire.Answer) bool { return !a.OK() })
	if a.OK() && discloses(t, b, a) {
		t.Failf("caller B (%d) got what A had created under key %s: %d %s", b.No, planted, b.Status, body(b))
	}
	for _, key := range []string{"1", "test", "0000"} {
		answer := t.Send("caller B, key "+key, t.Keyed(t.Fresh(), key).As(t.recipe.B))
		switch {
		case answer.Status == 0 || answer.ServerError():
			t.Infof("key %s (%d) got %d %s, which shows nothing; see K11", key, answer.No, answer.Status, body(answer))
		case answer.OK() && t.rules.Compares:
			ran = append(ran, answer) // this request has not been made before: it must have run
		case answer.OK():
			t.Infof("key %s (%d) got %d; profile %s does not compare requests", key, answer.No, answer.Status, t.rules.Name)
		}
	}
	if t.rules.Compares {
		t.WantEffects(len(ran), ran...)
	}
}

// secret is a text that has no place in an error.
type secret struct{ what, value string }

func tellingErrors(t *run) {
	key, v := probe.NewUUID(), t.intents.Next()
	first := t.First("first", t.Keyed(t.From(t.recipe.Request, v), key))
	a := t.Send("another request, the same key", t.Keyed(t.Fresh(), key))
	switch {
	case a.Status == 0:
		t.Brokenf("the other request got no answer: %v", a.Err)
	case a.OK():
		t.Skipf("the other request was not refused: see M01")
	}
	for _, secret := range secrets(t, key, v, first) {
		if strings.Contains(string(a.Plain()), secret.value) {
			t.Failf("the error (%d) shows %s: %s", a.No, secret.what, wire.Shorten(a.Body, 300))
		}
	}
}

// secrets are texts that are only in the first request and its answer, and cannot be in an error by chance.
func secrets(t *run, key string, v probe.Intent, first wire.Answer) []secret {
	all := []secret{{"the key", key}}
	request := t.recipe.Request.Body
	for generator, value := range map[string]string{"uuid": v.UUID, "seq": v.Seq, "time": v.Time} {
		if probe.Mentions(request, generator) {
			all = append(all, secret{fmt.Sprintf("the first request's {{%s}}", generator), value})
		}
	}
	if filled := strings.TrimSpace(v.Fill(request)); len(filled) > 8 {
		all = append(all, secret{"the first request", filled})
	}
	// Where every duplicate is refused, the refusal says by design what there is already.
	if id := t.id(first); len(id) > 4 && t.rules.Replays {
		all = append(all, secret{"what the first request has created", id})
	}
	return all
}

func cookiesAgain(t *run) {
	r := t.NewFrom(*t.recipe.Variants.Cookie)
	first := t.First("first", r)
	set := first.Header.Values("Set-Cookie")
	if len(set) == 0 {
		t.Skipf("the first answer has no Set-Cookie")
	}
	again := t.Send("retry", r)
	if !wantReplay(t, first, again) {
		return
	}
	for _, line := range again.Header.Values("Set-Cookie") {
		if slices.Contains(set, line) {
			name, _, _ := strings.Cut(line, "=") // the value is a secret
			t.Warnf("the replay (%d) sets a cookie of the first answer again: %s", again.No, name)
		}
	}
}
