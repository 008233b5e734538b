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
			Checks: "Another caller with the same key and the same body gets its own answer.",
			Why:    "A caller sees another caller's order, or cannot place its own.",
			Fix:    "Look up the key together with the authenticated caller, never the key alone.",
			Source: draft + " §5", Needs: s.needs(twoCredentials), Play: s.play(crossPrincipal),
		},
		{
			ID: "X02", Name: "no credential", Severity: probe.Critical, Safe: true,
			Checks: "A request without a credential does not get the answer saved for the key.",
			Why:    "Anyone who finds a key in a log can read the answer.",
			Fix:    "Authenticate the request before you look the key up.",
			Source: draft + " §5; RFC 9110 §11", Needs: s.needs(oneCredential), Play: s.play(unauthenticated),
		},
		{
			ID: "X03", Name: "revoked", Severity: probe.Critical,
			Checks: "A request with a revoked credential gets no replay.",
			Why:    "A caller that was locked out still reads earlier answers.",
			Fix:    "Authorise every request, including retries, before you look the key up.",
			Source: draft + " §5; RFC 9110 §15.5.4", Needs: s.needs(revokedCredential), Play: s.play(revoked),
		},
		{
			ID: "X04", Name: "guessed keys", Severity: probe.Critical, Safe: true,
			Checks: "A caller that sends easily guessed keys, such as 1 or test, gets no data of other callers.",
			Why:    "Some clients choose such keys, and another caller can guess them.",
			Fix:    "Make the authenticated caller part of the key.",
			Source: draft + " §5", Needs: s.needs(twoCredentials), Play: s.play(guessedKeys),
		},
		{
			ID: "X05", Name: "revealing errors", Severity: probe.Major,
			Checks: "An error about a key reveals neither the key nor the first request or its answer.",
			Why:    "Errors are logged, shown and forwarded, so their content is no longer secret.",
			Fix:    "Say only that the key was used for a different request.",
			Source: draft + " §5", Needs: s.needs(changingBody), Play: s.play(tellingErrors),
		},
		{
			ID: "X06", Name: "cookies", Severity: probe.Major,
			Checks: "A replay does not repeat the Set-Cookie headers of the first answer.",
			Why:    "The client restores a session that has ended or was replaced.",
			Fix:    "Do not save Set-Cookie with the answer.",
			Source: "RFC 6265 §3; RFC 9111 §7.3", Needs: s.needs(cookie), Play: s.play(cookiesAgain),
		},
		{
			ID: "X07", Name: "renewed credential", Severity: probe.Critical,
			Checks: "A caller keeps its keys when its credential changes, for example when its token is refreshed.",
			Why:    "A retry with a fresh token or signature counts as a new caller and runs again.",
			Fix: "Scope keys by the identity of the authenticated caller, such as its account ID, not by its " +
				"token or signature.",
			Source: always, Needs: s.needs(oneCredential, laterCredential), Play: s.play(otherCredential),
		},
		{
			ID: "X08", Name: "anonymous callers", Severity: probe.Major,
			Checks: "Callers without a credential do not get each other's answers.",
			Why:    "All anonymous callers share their keys. One that guesses a key reads the answer of another.",
			Fix:    "Refuse keys from callers that are not authenticated, unless the answers are public.",
			Source: draft + " §5", Needs: s.needs(oneCredential), Play: s.play(unknownCallers),
		},
		{
			ID: "X09", Name: "revoked before retry", Severity: probe.Critical,
			Checks: "A caller whose credential is revoked before its retry gets no replay.",
			Why:    "A caller that was locked out still reads earlier answers.",
			Fix:    "Authorise the request before you replay an answer.",
			Source: draft + " §5; RFC 9110 §15.5.4",
			Needs:  s.needs(oneCredential, credentialHooks), Play: s.play(revokedMeanwhile),
		},
	}
}

// crossPrincipal plays X01. A refusal of caller B counts only if B may make the request under another key: otherwise B
// lacks a right, and the key is not the reason.
func crossPrincipal(t *run) {
	v, key := t.intents.Next(), newKey(t)
	r := t.Keyed(t.From(t.recipe.Request, v), key)
	a := t.First("caller A", r)
	// With a set-up of its own, the body of B is the same but for what that has created.
	b := t.Send("caller B, the same key and body", likeAs(t, r, v, key))
	switch {
	case b.Status == 0:
		t.Brokenf("caller B got no answer: %v", b.Err)
	case discloses(t, b, a):
		t.Failf("caller B (%d) got what caller A had created, %q: %d %s", b.No, t.id(a), b.Status, body(b))
		return
	case b.OK():
		t.WantEffects(2, a, b)
		wantReplay(t, a, t.Send("caller A again", r))
		return
	}
	// B was refused: because of A's key, or because it may not do that at all.
	own := t.Send("caller B, a key of its own", likeAs(t, r, v, newKey(t)))
	if !own.OK() {
		t.Brokenf("caller B cannot make the request with any key: %d %s", own.Status, body(own))
	}
	t.Failf("caller B (%d) was refused with %d because caller A has used the key; with another key (%d) it "+
		"succeeded: callers share keys",
		b.No, b.Status, own.No)
}

// likeAs returns caller A's request with a key as caller B makes it. Without a set-up it is the same but for the
// credential and the key; otherwise B has a set-up of its own, but for the steps that callers share.
func likeAs(t *run, r wire.Request, v probe.Intent, key string) wire.Request {
	if len(t.recipe.Request.Setup) > 0 {
		r = t.FromAs(t.recipe.B, t.recipe.Request, v.Apart())
	}
	return t.Keyed(r, key).As(t.recipe.B)
}

// discloses reports whether an answer shows what another one has created: by its identity, anywhere in the body or in
// Location. Identities of one or two characters occur in any text and prove nothing.
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

// unauthenticated plays X02.
func unauthenticated(t *run) {
	wantBarred(t, "without a credential", func(r wire.Request) wire.Request { return anonymous(t, r) })
}

// revoked plays X03.
func revoked(t *run) {
	wantBarred(t, "with the revoked credential", func(r wire.Request) wire.Request { return r.As(t.recipe.Revoked) })
}

// wantBarred sends a request as A, and again as a caller who may not see the answer.
func wantBarred(t *run, how string, barred func(wire.Request) wire.Request) {
	alike := t.alike()
	r := t.Keyed(alike(), newKey(t))
	first := t.First("caller A", r)
	a := t.Send(how, barred(r))
	switch {
	case a.Status == 0:
		t.Notef(probe.Broken, "the request %s got no answer: %v", how, a.Err)
	case discloses(t, a, first):
		t.Failf("the request %s (%d) got A's answer: %d %s", how, a.No, a.Status, body(a))
	case a.OK():
		// It was carried out: because of A's key, or because it always is.
		fresh := t.Send(how+", a new key", t.Keyed(barred(alike()), newKey(t)))
		if fresh.OK() {
			t.Skipf("requests %s run, as those of another caller: the API refuses no caller", how)
		}
		t.Failf("the request %s (%d) succeeded with %d, although with a new key (%d) it got %d", how, a.No, a.Status, fresh.No,
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
		t.Warnf("%s (%d) got %d, which reveals something about the key; 401 or 403 reveals nothing", what, a.No, a.Status)
	}
}

// guessedKeys plays X04. It plants a key of six digits as caller A and sends it as caller B, and then tries keys that
// other callers may have used.
func guessedKeys(t *run) {
	seq := t.intents.Next().Seq
	planted := seq[max(0, len(seq)-6):]
	v := t.intents.Next()
	r := t.Keyed(t.From(t.recipe.Request, v), planted)
	a := t.Send("caller A, key "+planted, r)
	b := t.Send("caller B, key "+planted, likeAs(t, r, v, planted))
	ran := slices.DeleteFunc([]wire.Answer{a, b}, func(a wire.Answer) bool { return !a.OK() })
	if a.OK() && discloses(t, b, a) {
		t.Failf("caller B (%d) got what caller A had created with key %s: %d %s", b.No, planted, b.Status, body(b))
	}
	for _, key := range []string{"1", "test", "0000"} {
		answer := t.Send("caller B, key "+key, t.Keyed(t.FromAs(t.recipe.B, t.recipe.Request, t.intents.Next()), key))
		switch {
		case answer.Status == 0 || answer.ServerError():
			t.Infof("key %s (%d) got %d %s, which reveals no data; see K11", key, answer.No, answer.Status, body(answer))
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

// secret is a text that must not be in an error.
type secret struct{ what, value string }

// tellingErrors plays X05.
func tellingErrors(t *run) {
	key, v := newKey(t), t.intents.Next()
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

// secrets returns the texts that are only in the first request and its answer, and cannot be in an error by chance.
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
		all = append(all, secret{"what the first request created", id})
	}
	return all
}

// cookiesAgain plays X06. The finding names the cookie only, because its value is a secret.
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
