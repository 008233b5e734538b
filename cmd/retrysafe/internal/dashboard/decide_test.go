package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// Each decision is previewed, which changes nothing, and then carried out.
func TestDecisions(t *testing.T) {
	for action, c := range map[string]struct{ becomes, says string }{
		"complete": {keys.Succeeded, "Every retry gets the answer below"},
		"fail":     {keys.Failed, "needs a new key"},
		"release":  {keys.Released, "it happens twice"},
	} {
		t.Run(action, func(t *testing.T) {
			k := start(t, Options{})
			digest := k.abandon("acme", "order-17")
			page := k.get("/decide?digest=" + digest)
			k.wantText("the form", page, c.says)
			form := with(fields(page.Body.String()), "action", action, "reason", "looked\r\nit up", "by", "Alice")
			if action == "complete" {
				form = with(form, "status", "201", "header", "Location: /charges/17\r\n", "body", "{\r\n\"id\": 17}")
			}
			preview := k.do(http.MethodPost, "/decide/preview", form)
			k.wantStatus("preview", preview, http.StatusOK)
			k.wantText("preview", preview, "nothing was changed", c.says, "looked")
			if got := k.stateOf(digest); got != keys.Abandoned {
				t.Fatalf("the preview has made it %s", got)
			}
			done := k.do(http.MethodPost, "/decide/confirm", fields(preview.Body.String()))
			k.wantStatus("confirm", done, http.StatusOK)
			if got := k.stateOf(digest); got != c.becomes {
				t.Errorf("it is %s, want %s:\n%s", got, c.becomes, textOf(done))
			}
			k.wantText("its page", k.get("/keys/"+digest), "Alice decided", "looked")
			k.wantText("the decisions", k.get("/audit"), "Alice", digest, "carried out")
			if !strings.Contains(k.log.String(), "dashboard: decision") {
				t.Errorf("the log has no line:\n%s", k.log)
			}
		})
	}
}

// Several keys are decided alike. What cannot be decided is named, and does not stop the rest.
func TestDecideSeveral(t *testing.T) {
	k := start(t, Options{})
	one, two, ended := k.abandon("acme", "1"), k.abandon("globex", "2"), k.end("acme", "3", "{}")
	page := k.get("/attention")
	k.wantText("those that wait", page, one, two, "acme", "globex")
	form := url.Values{"digest": {one, two, ended}}
	page = k.get("/decide?" + form.Encode())
	preview := k.do(http.MethodPost, "/decide/preview", with(fields(page.Body.String()), "action", "fail", "reason", "no charge", "by", "Bob"))
	k.wantText("preview", preview, "this is done for 2 keys", "has ended already")
	done := k.do(http.MethodPost, "/decide/confirm", fields(preview.Body.String()))
	k.wantText("results", done, "Partly done", "Carried out for 2 of 3")
	for digest, want := range map[string]string{one: keys.Failed, two: keys.Failed, ended: keys.Succeeded} {
		if got := k.stateOf(digest); got != want {
			t.Errorf("%s is %s, want %s", digest, got, want)
		}
	}
}

func TestPurge(t *testing.T) {
	k := start(t, Options{})
	digest := k.end("acme", "1", "private")
	form := with(fields(k.get("/purge?digest="+digest).Body.String()), "action", "purge", "reason", "erasure 4711", "by", "Alice")
	preview := k.do(http.MethodPost, "/purge/preview", form)
	k.wantText("preview", preview, "bytes of answer and steps")
	k.wantText("answer", k.do(http.MethodPost, "/keys/"+digest+"/answer", with(fields(preview.Body.String()))), "private")
	k.wantText("results", k.do(http.MethodPost, "/purge/confirm", fields(preview.Body.String())), "Done")
	page := k.do(http.MethodPost, "/keys/"+digest+"/answer", with(form))
	if strings.Contains(page.Body.String(), "private") {
		t.Error("the answer is still there")
	}
}

// An operation that has ended is run again by a user who may purge. Seen to fail without the case of ResolveReopen in
// act.
func TestRunAgain(t *testing.T) {
	k := start(t, Options{})
	digest := k.end("acme", "1", "private")
	form := with(fields(k.get("/purge?digest="+digest).Body.String()), "action", "reopen", "reason", "bug 17", "by", "Alice")
	preview := k.do(http.MethodPost, "/purge/preview", form)
	k.wantText("preview", preview, "it happens twice", "would run the operation again")
	if got := k.stateOf(digest); got != keys.Succeeded {
		t.Fatalf("the preview has made it %s", got)
	}
	k.wantText("results", k.do(http.MethodPost, "/purge/confirm", fields(preview.Body.String())), "Reopened")
	if got := k.stateOf(digest); got != keys.Released {
		t.Errorf("it is %s, want released", got)
	}
	k.wantText("its page", k.get("/keys/"+digest), "Alice decided: run it again", "bug 17")
}
