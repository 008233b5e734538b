package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// startSecond returns a kit in which every decision about a key needs a second person, and the file of proposals.
func startSecond(t *testing.T) (*kit, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proposals")
	second, err := NewSecondPerson([]string{"resolve", "purge", "reopen"}, path)
	must(t, err)
	return start(t, Options{Users: users(t), SecondPerson: second}), path
}

// propose proposes a decision as the user with a name, and returns the path of its page.
func (k *kit) propose(name, form, action string, digests ...string) string {
	k.Helper()
	k.as(name)
	page := k.get(form + "?" + url.Values{"digest": digests}.Encode())
	filled := with(fields(page.Body.String()), "action", action, "reason", "looked it up", "status", "201", "body", `{"id": 17}`)
	preview := k.do(http.MethodPost, form+"/preview", filled)
	k.wantText("the preview", preview, "If you propose it", "Propose:")
	w := k.do(http.MethodPost, form+"/confirm", fields(preview.Body.String()))
	k.wantStatus("the proposal", w, http.StatusSeeOther)
	return w.Header().Get("Location")
}

// confirm confirms, as the user with a name, what the page of a proposal offers.
func (k *kit) confirm(name, page string) *httptest.ResponseRecorder {
	k.Helper()
	k.as(name)
	shown := k.get(page).Body.String()
	form := url.Values{"token": {tokenOfPage(shown)}, "preview": {previewOf(shown)}}
	return k.do(http.MethodPost, page+"/confirm", form)
}

func tokenOfPage(page string) string { return valueOf(page, "token") }
func previewOf(page string) string   { return valueOf(page, "preview") }

func valueOf(page, name string) string {
	_, rest, _ := strings.Cut(page, `name="`+name+`" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Each kind of decision is proposed, which changes nothing, and carried out when another person confirms it. Both are in
// the trail, and each step is in the log and among the decisions.
//
// Seen to fail with needs always false, and with both left out of confirmProposal.
func TestDecisionsOfTwoPersons(t *testing.T) {
	for action, c := range map[string]struct{ form, was, becomes string }{
		"complete": {decidePath, keys.Abandoned, keys.Succeeded},
		"fail":     {decidePath, keys.Abandoned, keys.Failed},
		"release":  {decidePath, keys.Abandoned, keys.Released},
		"purge":    {purgePath, keys.Succeeded, keys.Succeeded},
		"reopen":   {purgePath, keys.Succeeded, keys.Released},
	} {
		t.Run(action, func(t *testing.T) {
			k, _ := startSecond(t)
			digest := k.abandon("acme", "1")
			if c.form == purgePath {
				digest = k.end("acme", "2", "private")
			}
			page := k.propose("purge", c.form, action, digest)
			if got := k.stateOf(digest); got != c.was {
				t.Fatalf("the proposal has made it %s", got)
			}
			k.wantText("its key", k.get("/keys/"+digest), "A decision waits for a second person", "purge-user has proposed", page)
			k.wantText("those that wait", k.get("/attention"), "wait for a second person", page, "looked it up")
			k.as("second")
			k.wantText("the proposal", k.get(page), "If you confirm, this is done for one key", "purge-user", "looked it up")
			done := k.confirm("second", page)
			k.wantStatus("confirmed", done, http.StatusOK)
			k.wantText("confirmed", done, "Carried out for 1 of 1")
			if got := k.stateOf(digest); got != c.becomes {
				t.Errorf("it is %s, want %s:\n%s", got, c.becomes, textOf(done))
			}
			k.wantText("its key", k.get("/keys/"+digest), "purge-user, confirmed by second-user decided", "looked it up")
			if strings.Contains(k.get("/keys/"+digest).Body.String(), "A decision waits") {
				t.Error("it still waits")
			}
			k.wantText("the decisions", k.get("/audit"), "proposed", "confirmed", "carried out")
			k.wantStatus("its page afterwards", k.get(page), http.StatusNotFound)
			for _, step := range []string{"step=proposed", "step=confirmed"} {
				if !strings.Contains(k.log.String(), step) {
					t.Errorf("the log lacks %s:\n%s", step, k.log)
				}
			}
		})
	}
}

// Nobody confirms what they have proposed, or what their role does not allow, or anything but what is proposed.
//
// Seen to fail with the cases for mine, mayDecide and isMAC taken out of confirmProposal, and with
// the names, or the IDs, not compared in findProposal.
func TestNoSecondPersonWhoIsTheFirst(t *testing.T) {
	k, _ := startSecond(t)
	waiting, ended := k.abandon("acme", "1"), k.end("acme", "2", "private")
	page := k.propose("purge", decidePath, "fail", waiting)
	k.wantText("for its author", k.get(page), "Another person must confirm this", "Withdraw it")
	token := fields(k.get(page).Body.String())
	q := &request{Dashboard: k.dashboard, r: httptest.NewRequest(http.MethodGet, "/", nil)}
	open, err := q.proposals()
	must(t, err)
	q.who.session = k.cookie.Value
	mac := q.mac("proposal", open[0].text())
	k.wantStatus("its author", k.do(http.MethodPost, page+"/confirm", with(token, "preview", mac)), http.StatusForbidden)
	k.wantStatus("its author declines", k.do(http.MethodPost, page+"/decline", with(token, "reason", "r")), http.StatusForbidden)
	again := k.as("purge") // another session of the author
	q.who.session = again.cookie.Value
	token = fields(k.get(page).Body.String())
	k.wantStatus("its author again", k.do(http.MethodPost, page+"/confirm", with(token, "preview", q.mac("proposal", open[0].text()))),
		http.StatusForbidden)
	for what, author := range map[string]session{
		"its author, at the provider": {id: "oidc:1", name: "Purge-User"}, "its author, who has another name now": {id: "file:purge-user", name: "x"},
	} {
		author.role = Purge
		secret := k.dashboard.sessions.begin(author)
		k.cookie = &http.Cookie{Name: cookieName, Value: secret}
		q.who.session = secret
		token = fields(k.get(page).Body.String())
		k.wantStatus(what, k.do(http.MethodPost, page+"/confirm", with(token, "preview", q.mac("proposal", open[0].text()))), http.StatusForbidden)
	}

	k.as("second")
	token = fields(k.get(page).Body.String())
	for name, preview := range map[string]string{"no preview": "", "the preview of another session": mac} {
		k.wantStatus(name, k.do(http.MethodPost, page+"/confirm", with(token, "preview", preview)), http.StatusBadRequest)
	}
	k.wantStatus("withdrawn by another", k.do(http.MethodPost, page+"/withdraw", token), http.StatusForbidden)
	k.wantStatus("declined without a reason", k.do(http.MethodPost, page+"/decline", token), http.StatusBadRequest)
	if got := k.stateOf(waiting); got != keys.Abandoned {
		t.Fatalf("it is %s", got)
	}
	second := k.propose("purge", purgePath, "purge", ended)
	k.as("resolve")
	k.wantText("a role that is too small", k.get(second), "takes the role purge")
	open, err = q.proposals()
	must(t, err)
	q.who.session = k.cookie.Value
	token = url.Values{"token": {tokenOfPage(k.get("/").Body.String())}}
	k.wantStatus("a role that is too small", k.do(http.MethodPost, second+"/confirm", with(token, "preview", q.mac("proposal", open[1].text()))),
		http.StatusForbidden)
	k.wantStatus("a role that is too small declines", k.do(http.MethodPost, second+"/decline", with(token, "reason", "r")), http.StatusForbidden)
	k.wantText("the answer", k.do(http.MethodPost, "/keys/"+ended+"/answer", token), "private")
	k.wantStatus("the right one", k.confirm("resolve", page), http.StatusOK)
	if got := k.stateOf(waiting); got != keys.Failed {
		t.Errorf("it is %s", got)
	}
}

// A proposal ends when its author withdraws it, when another person declines it, and after a day, and does nothing then.
//
// Seen to fail with isOver always false, and with take left out of declineProposal and withdrawProposal.
func TestProposalsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := startSecond(t)
		digest := k.abandon("acme", "1")
		gone := func(what, page, step string) {
			t.Helper()
			k.as("second")
			k.wantStatus(what, k.get(page), http.StatusNotFound)
			k.wantStatus(what, k.confirm("second", page), http.StatusNotFound)
			k.wantText(what, k.get("/audit"), step)
			if got := k.stateOf(digest); got != keys.Abandoned {
				t.Errorf("%s: it is %s", what, got)
			}
		}
		page := k.propose("resolve", decidePath, "fail", digest)
		k.wantStatus("withdrawn", k.do(http.MethodPost, page+"/withdraw", fields(k.get(page).Body.String())), http.StatusSeeOther)
		gone("withdrawn", page, "withdrawn")
		page = k.propose("resolve", decidePath, "fail", digest)
		k.as("purge")
		form := with(fields(k.get(page).Body.String()), "reason", "the charge exists")
		k.wantStatus("declined", k.do(http.MethodPost, page+"/decline", form), http.StatusSeeOther)
		gone("declined", page, "the charge exists")
		page = k.propose("resolve", decidePath, "fail", digest)
		time.Sleep(proposalTime - time.Second)
		k.as("second")
		k.wantStatus("just in time", k.get(page), http.StatusOK)
		time.Sleep(time.Second)
		k.wantStatus("too late", k.get(page), http.StatusNotFound)
		if !strings.Contains(k.log.String(), "step=expired") {
			t.Error("the log does not say that it has expired")
		}
	})
}

// A proposal is about a key as it was: once another attempt or person has changed the key, it lapses, also if the key is
// in the same state again.
//
// Seen to fail with isChanged left out of act, and with Fence and State left out of pinOf.
func TestAProposalAboutAKeyThatHasChanged(t *testing.T) {
	k, _ := startSecond(t)
	digest := k.abandon("acme", "1")
	other := k.abandon("acme", "2")
	page := k.propose("resolve", decidePath, "release", digest, other)
	k.abandonAgain("acme", "1")
	k.as("purge")
	k.wantText("its page", k.get(page), "The proposal has lapsed", "this is done for one key")
	k.wantText("confirmed", k.confirm("purge", page), "Carried out for 1 of 2", "has lapsed: the key has changed since")
	if one, two := k.stateOf(digest), k.stateOf(other); one != keys.Abandoned || two != keys.Released {
		t.Errorf("they are %s and %s", one, two)
	}
	page = k.propose("resolve", decidePath, "fail", digest)
	k.decide(digest)
	k.as("purge")
	k.wantText("when it is decided", k.get(page), "The proposal has lapsed: it cannot be carried out for any of the keys any more")
	k.wantStatus("when it is decided", k.confirm("purge", page), http.StatusBadRequest) // its page has nothing to confirm
	ended := k.end("acme", "3", "{}")
	page = k.propose("second", purgePath, "purge", ended)
	_, err := keys.NewLocal(k.store, nil).Reopen(t.Context(), keys.Decision{Digest: ended, Reason: "bug 17", By: "x"}) // the fence stays
	must(t, err)
	k.as("purge")
	k.wantText("when it is reopened", k.get(page), "It was succeeded, and is released")
}

// changedFirst changes a key before a decision about it is carried out.
type changedFirst struct {
	keys.Keys
	change func()
}

func (c changedFirst) Resolve(ctx context.Context, d keys.Decision) (keys.Record, error) {
	if !d.DryRun {
		c.change()
	}
	return c.Keys.Resolve(ctx, d)
}

// A key that another attempt takes after it was compared with the proposal is left as it is. Seen to fail with Fence left
// out of act: the key was released.
func TestAProposalAboutAKeyThatChangesMeanwhile(t *testing.T) {
	k, _ := startSecond(t)
	digest := k.abandon("acme", "1")
	page := k.propose("resolve", decidePath, "release", digest)
	k.dashboard.keys = changedFirst{k.dashboard.keys, func() { k.abandonAgain("acme", "1") }}
	k.wantText("confirmed", k.confirm("purge", page), "was used again since")
	if state := k.stateOf(digest); state != keys.Abandoned {
		t.Errorf("it is %s", state)
	}
}

// abandonAgain abandons an abandoned key once more, under a later fence.
func (k *kit) abandonAgain(scope, id string) {
	k.Helper()
	c, err := k.store.Claim(k.Context(), retrysafe.ClaimParams{
		Key: retrysafe.Key{Scope: scope, ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Minute, TakeOver: true,
		Fingerprint: "raw:1", Keep: retrysafe.Retention{Key: time.Hour},
	})
	k.must(err)
	k.must(k.store.Extend(k.Context(), c.Lease, 0))
}

// Several keys are proposed and confirmed at once. What cannot be decided is left out, and a key has one proposal.
//
// Seen to fail with the loop over other proposals left out of SecondPerson.add.
func TestProposeSeveral(t *testing.T) {
	k, _ := startSecond(t)
	one, two, ended := k.abandon("acme", "1"), k.abandon("acme", "2"), k.end("acme", "3", "{}")
	page := k.propose("resolve", decidePath, "fail", one, two, ended)
	k.wantText("the proposal", k.get(page), "for 2 keys")
	form := with(fields(k.get("/decide?digest="+two).Body.String()), "action", "fail", "reason", "r")
	preview := fields(k.do(http.MethodPost, "/decide/preview", form).Body.String())
	w := k.do(http.MethodPost, "/decide/confirm", preview)
	k.wantStatus("another proposal", w, http.StatusConflict)
	k.wantText("another proposal", w, "is proposed already", two)
	k.wantText("confirmed", k.confirm("purge", page), "Carried out for 2 of 2")
	for digest, want := range map[string]string{one: keys.Failed, two: keys.Failed, ended: keys.Succeeded} {
		if got := k.stateOf(digest); got != want {
			t.Errorf("%s is %s, want %s", digest, got, want)
		}
	}
}

// Proposals outlive the process, in a file that only its user can read. A disk that is full, and a file that is none,
// give a page that says so, and nothing is decided.
//
// Seen to fail with the error of write left out of take, and of add.
func TestTheFileOfProposals(t *testing.T) {
	k, path := startSecond(t)
	digest := k.abandon("acme", "1")
	page := k.propose("resolve", decidePath, "fail", digest)
	second, err := NewSecondPerson([]string{"resolve"}, path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	k.dashboard = New(Options{
		Keys: keys.NewLocal(k.store, nil), Log: k.dashboard.options.Log, Users: k.dashboard.options.Users, SecondPerson: second,
	})
	k.as("second")
	form := url.Values{"token": {tokenOfPage(k.get(page).Body.String())}, "preview": {previewOf(k.get(page).Body.String())}}
	second.path = filepath.Join(path, "no folder") // where nothing can be read or written
	k.wantStatus("confirmed on a broken disk", k.do(http.MethodPost, page+"/confirm", form), http.StatusServiceUnavailable)
	k.wantStatus("those that wait", k.get("/attention"), http.StatusServiceUnavailable)
	k.wantStatus("the key", k.get("/keys/"+digest), http.StatusOK)
	text, err := os.ReadFile(path)
	must(t, err)
	second.path = filepath.Join(filepath.Dir(path), strings.Repeat("x", 255)) // beside which no file with a longer name can be
	must(t, os.WriteFile(second.path, text, 0o600))
	k.wantStatus("confirmed on a full disk", k.do(http.MethodPost, page+"/confirm", form), http.StatusServiceUnavailable)
	other := k.abandon("acme", "2")
	proposal := with(fields(k.get("/decide?digest="+other).Body.String()), "action", "fail", "reason", "r")
	preview := fields(k.do(http.MethodPost, "/decide/preview", proposal).Body.String())
	k.wantStatus("proposed on a full disk", k.do(http.MethodPost, "/decide/confirm", preview), http.StatusServiceUnavailable)
	second.path = path
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	for name, text := range map[string]string{"no JSON": "x", "another file": `{"a": 1}`, "an unknown field": `[{"A": 1}]`} {
		other := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(other, []byte(text), 0o600))
		if _, err := NewSecondPerson([]string{"purge"}, other); err == nil || !strings.Contains(err.Error(), "is no file of proposals") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := k.stateOf(digest); got != keys.Abandoned {
		t.Errorf("it is %s", got)
	}
	for _, c := range []struct {
		kinds []string
		path  string
	}{{[]string{"look"}, path}, {nil, path}, {[]string{"purge"}, ""}, {[]string{"purge"}, filepath.Join(path, "none", "p")}} {
		if _, err := NewSecondPerson(c.kinds, c.path); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
}

// Proposals are bounded in number and in size. Seen to fail with maxProposals not looked at in add, and maxProposed in
// write.
func TestTooManyProposals(t *testing.T) {
	second, err := NewSecondPerson([]string{"resolve"}, filepath.Join(t.TempDir(), "p"))
	must(t, err)
	all := make([]proposal, maxProposals)
	for i := range all {
		all[i].At = time.Now()
	}
	must(t, second.write(all))
	if err := second.add(proposal{At: time.Now()}); err != errTooMany {
		t.Error(err)
	}
	must(t, second.write(nil))
	if err := second.add(proposal{At: time.Now(), Form: decisionForm{Body: strings.Repeat("x", maxProposed)}}); err != errTooLarge {
		t.Error(err)
	}
}

// While the store is down, nothing is decided, and the proposal stays. Seen to fail with the proposal not added again in
// confirmProposal.
func TestAStoreThatIsDownWhenAProposalIsConfirmed(t *testing.T) {
	k, _ := startSecond(t)
	digest := k.abandon("acme", "1")
	page := k.propose("resolve", decidePath, "fail", digest)
	k.as("second")
	shown := k.get(page).Body.String()
	working := k.dashboard.keys
	k.dashboard.keys = down{}
	form := url.Values{"token": {tokenOfPage(shown)}, "preview": {previewOf(shown)}}
	k.wantStatus("confirmed", k.do(http.MethodPost, page+"/confirm", form), http.StatusServiceUnavailable)
	k.dashboard.keys = working
	k.wantText("confirmed later", k.confirm("second", page), "Carried out for 1 of 1")
}
