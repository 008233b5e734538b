package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scopes: nobody sees what belongs to somebody else.
func scopes() []Case {
	return []Case{
		{
			ID: "X01", Name: "two callers", Checks: "Another caller with the same key and the same body gets an answer of its own.", Source: draft + " §5",
			Severity: Critical, Safe: true, Needs: []Need{twoCredentials()}, Why: "A caller sees, or takes the place of, somebody else's order.",
			Fix: "Look keys up together with the caller that authentication has found, not alone.", run: crossPrincipal,
		},
		{
			ID: "X02", Name: "no credential", Checks: "A key without its credential opens nothing.", Source: draft + " §5; RFC 9110 §11", Severity: Critical, Safe: true,
			Needs: []Need{aCredential()}, Why: "Whoever sees a key in a log reads the answer.", Fix: "Authenticate before the key is looked up.", run: unauthenticated,
		},
		{
			ID: "X03", Name: "revoked", Checks: "A credential that was taken away replays nothing.", Source: draft + " §5; RFC 9110 §15.5.4", Severity: Critical,
			Needs: []Need{aRevokedCredential()}, Why: "Who has been locked out still reads what was answered before.",
			Fix: "Authorise every request, retries too, before the key is looked up.", run: revoked,
		},
		{
			ID: "X04", Name: "guessed keys", Checks: "Keys that are easily guessed show nobody's data.", Source: draft + " §5", Severity: Critical, Safe: true,
			Needs: []Need{twoCredentials()}, Why: "Clients choose keys such as 1 or test: others guess them.",
			Fix: "Make the caller a part of the key.", run: guessedKeys,
		},
		{
			ID: "X05", Name: "errors that tell", Checks: "An error about a key shows neither the key nor the first request or its answer.", Source: draft + " §5",
			Severity: Major, Needs: []Need{aChangingBody()}, Why: "Errors are logged, shown and forwarded: what is in them is no secret any more.",
			Fix: "Say that the key was used with another request, and no more.", run: tellingErrors,
		},
		{
			ID: "X06", Name: "cookies", Checks: "A replay sets no cookie of the first answer.", Source: "RFC 6265 §3; RFC 9111 §7.3", Severity: Major,
			Needs: []Need{aCookieVariant()}, Why: "A session that has ended, or has been changed for a new one, is set again.",
			Fix: "Leave Set-Cookie out of what is saved.", run: cookiesAgain,
		},
		{
			ID: "X07", Name: "another credential", Checks: "A caller whose credential changes from request to request has its keys all the same.", Source: always,
			Severity: Critical, Needs: []Need{aCredential(), needs("credentials.a_again: what caller a sends with a later request, such as a fresh token", func(r *Recipe) bool {
				return len(r.AAgain) > 0
			})},
			Why: "Each retry with a fresh token or signature is a new caller, and runs again.",
			Fix: "Take who the caller is for its name, as authentication has found it, not what it has sent to prove that.", run: otherCredential,
		},
		{
			ID: "X08", Name: "unknown callers", Checks: "Callers without a credential do not get each other's answers.", Source: draft + " §5", Severity: Major,
			Needs: []Need{aCredential()}, Why: "All whom the layer does not know have their keys in common: who guesses one reads the answer.",
			Fix: "Refuse keys of callers that have no name, unless what is answered is everybody's.", run: unknownCallers,
		},
		{
			ID: "X09", Name: "revoked meanwhile", Checks: "A caller whose credential has been taken away gets no replay.", Source: draft + " §5; RFC 9110 §15.5.4",
			Severity: Critical, Needs: []Need{aCredential(), needs("hooks.revoke and hooks.restore: commands that take the credential of a away and give it back", func(r *Recipe) bool {
				return r.Hooks.Revoke != nil && r.Hooks.Restore != nil
			})},
			Why: "Who has been locked out still reads what was answered before.",
			Fix: "Ask whoever knows credentials before anything is replayed.", run: revokedMeanwhile,
		},
	}
}

func aRevokedCredential() Need {
	return needs("credentials.revoked: what a caller sends that may not make the request any more", func(r *Recipe) bool { return len(r.Revoked) > 0 })
}

func aCookieVariant() Need {
	return needs("variants.cookie: a request that is answered with Set-Cookie", func(r *Recipe) bool { return r.Variants.Cookie != nil })
}

func crossPrincipal(t *Trial) {
	key := t.NewKey()
	r := t.Keyed(t.Fresh(), key)
	a, ok := t.Works("caller A", r)
	if !ok {
		return
	}
	b := t.Send("caller B, the same key and body", r.As(t.Recipe.B))
	switch {
	case b.Status == 0:
		t.Brokenf("caller B got no answer: %v", b.Err)
	case t.discloses(b, a):
		t.Failf("caller B (%d) got what A had created, %q: %d %s", b.No, t.Recipe.Identity.of(a), b.Status, trimmed(b.Body, 200))
	case b.OK():
		t.WantEffects(2, a, b)
		t.wantReplay(a, t.Send("caller A again", r))
	default:
		t.inTheWay(b, r)
	}
}

// inTheWay looks at why B was refused: because of A's key, or because it may not do that at all.
func (t *Trial) inTheWay(b Answer, r Request) {
	own := t.Send("caller B, a key of its own", t.Keyed(r, t.NewKey()).As(t.Recipe.B))
	if !own.OK() {
		t.Brokenf("caller B cannot make the request under any key: %d %s", own.Status, trimmed(own.Body, 200))
		return
	}
	t.Failf("caller B (%d) was refused with %d because A has used the key; with another key (%d) it worked: keys are not the caller's own", b.No, b.Status, own.No)
}

// discloses reports whether an answer shows what another one has created.
func (t *Trial) discloses(a, other Answer) bool {
	id := t.Recipe.Identity.of(other)
	switch {
	case id == "":
		return len(other.Body) > 0 && a.OK() && a.Same(other)
	case t.Recipe.Identity.of(a) == id:
		return true
	case len(id) < 3: // such a number may be anywhere
		return false
	}
	return strings.Contains(string(a.plain()), `"`+id+`"`) || a.Header.Get("Location") != "" && a.Header.Get("Location") == other.Header.Get("Location")
}

func unauthenticated(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	bare := r
	for _, h := range t.Recipe.A {
		bare = bare.Without(h.Name)
	}
	t.barred("without a credential", r, bare)
}

func revoked(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	t.barred("with the revoked credential", r, r.As(t.Recipe.Revoked))
}

// barred plays a request as A, and again as somebody who may not see the answer.
func (t *Trial) barred(how string, r, other Request) {
	first, ok := t.Works("caller A", r)
	if !ok {
		return
	}
	a := t.Send(how, other)
	switch {
	case a.Status == 0:
		t.Brokenf("the request %s got no answer: %v", how, a.Err)
	case t.discloses(a, first):
		t.Failf("the request %s (%d) got A's answer: %d %s", how, a.No, a.Status, trimmed(a.Body, 200))
	case a.OK():
		t.servedAnyway(how, a, other)
		return
	case a.ServerError():
		t.Failf("the request %s (%d) got %d", how, a.No, a.Status)
	case !oneOf(a.Status, []int{401, 403}):
		t.Warnf("the request %s (%d) got %d, which says something of the key; 401 or 403 says nothing", how, a.No, a.Status)
	}
	t.WantEffects(1, first)
}

// servedAnyway looks at why a request was carried out: because of A's key, or because it always is.
func (t *Trial) servedAnyway(how string, a Answer, other Request) {
	fresh := t.Send(how+", a new key", t.Keyed(other, t.NewKey()))
	if fresh.OK() {
		t.NAf("requests %s are carried out, as another caller's: nobody is barred", how)
		return
	}
	t.Failf("the request %s (%d) was carried out with %d; under a new key (%d) it got %d", how, a.No, a.Status, fresh.No, fresh.Status)
}

// guessedKeys plants a key of six digits as A and asks for it as B, and then asks for keys that somebody may have used.
func guessedKeys(t *Trial) {
	planted := fmt.Sprintf("%06d", t.Intent().seq%1_000_000)
	r := t.guess(planted)
	a := t.Send("caller A, key "+planted, r)
	b := t.Send("caller B, key "+planted, r.As(t.Recipe.B))
	ran := []Answer{}
	for _, answer := range []Answer{a, b} {
		if answer.OK() {
			ran = append(ran, answer)
		}
	}
	if a.OK() && t.discloses(b, a) {
		t.Failf("caller B (%d) got what A had created under key %s: %d %s", b.No, planted, b.Status, trimmed(b.Body, 200))
	}
	for _, key := range []string{"1", "test", "0000"} {
		answer := t.Send("caller B, key "+key, t.guess(key).As(t.Recipe.B))
		switch {
		case answer.Status == 0 || answer.ServerError():
			t.Infof("key %s (%d) got %d %s, which shows nothing; see K11", key, answer.No, answer.Status, errText(answer))
		case answer.OK() && t.Rules.Compares:
			ran = append(ran, answer) // nobody has made this request before: it must have run
		case answer.OK():
			t.Infof("key %s (%d) got %d; profile %s does not compare requests", key, answer.No, answer.Status, t.Rules.Name)
		}
	}
	if t.Rules.Compares {
		t.WantEffects(len(ran), ran...)
	}
}

// guess is a request that nobody has made, under a key that somebody may have used.
func (t *Trial) guess(key string) Request { return t.Keyed(t.Fresh(), key) }

func tellingErrors(t *Trial) {
	key, v := t.NewKey(), t.Intent()
	first, ok := t.Works("first", t.Keyed(t.For(v), key))
	if !ok {
		return
	}
	a := t.Send("another request, the same key", t.Keyed(t.Fresh(), key))
	switch {
	case a.Status == 0:
		t.Brokenf("the other request got no answer: %v", a.Err)
		return
	case a.OK():
		t.NAf("the other request was not refused: see M01")
		return
	}
	for _, secret := range t.secrets(key, v, first) {
		if strings.Contains(string(a.plain()), secret.value) {
			t.Failf("the error (%d) shows %s: %s", a.No, secret.what, trimmed(a.Body, 300))
		}
	}
}

// secret is a text that has no place in an error.
type secret struct{ what, value string }

// secrets are what is only in the first request and its answer, and cannot be in an error by chance.
func (t *Trial) secrets(key string, v Intent, first Answer) []secret {
	all := []secret{{"the key", key}}
	body := t.Recipe.Request.Body
	for generator, value := range map[string]string{"uuid": v.uuid, "seq": fmt.Sprint(v.seq), "time": v.at} {
		if mentions(body, generator) {
			all = append(all, secret{"the first request's {{" + generator + "}}", value})
		}
	}
	if filled := strings.TrimSpace(v.fill(body)); len(filled) > 8 {
		all = append(all, secret{"the first request", filled})
	}
	// Where every duplicate is refused, the refusal says by design what there is already.
	if id := t.Recipe.Identity.of(first); len(id) > 4 && t.Rules.Replays {
		all = append(all, secret{"what the first request has created", id})
	}
	return all
}

func cookiesAgain(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Cookie, t.Intent()), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	set := first.Header.Values("Set-Cookie")
	if len(set) == 0 {
		t.NAf("the first answer has no Set-Cookie")
		return
	}
	again := t.Send("retry", r)
	if !t.wantReplay(first, again) {
		return
	}
	for _, line := range again.Header.Values("Set-Cookie") {
		if slices.Contains(set, line) {
			t.Warnf("the replay (%d) sets a cookie of the first answer again: %s", again.No, cookieName(line))
		}
	}
}

// cookieName leaves out the value, which is nobody's business.
func cookieName(line string) string {
	name, _, _ := strings.Cut(line, "=")
	return name
}

func otherCredential(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("caller A", r)
	if !ok {
		return
	}
	again := t.Send("caller A, retry with a later credential", r.As(t.Recipe.AAgain))
	if oneOf(again.Status, []int{401, 403}) {
		t.Brokenf("credentials.a_again (%d) got %d: it must be as good as credentials.a", again.No, again.Status)
		return
	}
	t.wantReplay(first, again)
	t.WantEffects(1, first, again)
}

func unknownCallers(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	for _, h := range t.Recipe.A {
		r = r.Without(h.Name)
	}
	first := t.Send("without a credential", r)
	if !first.OK() {
		return
	}
	again := t.Send("somebody else without a credential, the same key", r)
	if t.discloses(again, first) {
		t.Warnf("two callers without a credential (%d, %d) share a key: whoever guesses it gets the answer of the other", first.No, again.No)
	}
}

func revokedMeanwhile(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("caller A", r)
	if !ok {
		return
	}
	if err := t.Recipe.Hooks.Revoke(t.ctx); err != nil {
		t.Brokenf("hooks.revoke: %v", err)
	} else {
		t.judgeRevoked(first, r)
	}
	// The credential is to work again even if the run is being given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
	defer cancel()
	if err := t.Recipe.Hooks.Restore(ctx); err != nil {
		t.Brokenf("hooks.restore: %v", err)
	}
}

// judgeRevoked looks at what a credential is worth that has been taken away.
func (t *Trial) judgeRevoked(first Answer, r Request) {
	if fresh := t.Send("revoked, a new key", t.Keyed(r, t.NewKey())); fresh.OK() {
		t.Brokenf("after hooks.revoke the credential of a still works (%d: %d)", fresh.No, fresh.Status)
		return
	}
	switch a := t.Send("revoked, retry", r); {
	case a.Status == 0:
		t.Brokenf("the retry (%d) got no answer: %v", a.No, a.Err)
	case t.discloses(a, first):
		t.Failf("the retry (%d) got the answer, though its credential has been revoked: %d %s", a.No, a.Status, trimmed(a.Body, 200))
	case !oneOf(a.Status, []int{401, 403}):
		t.Warnf("the retry (%d) got %d, which says something of the key; 401 or 403 says nothing", a.No, a.Status)
	}
}
