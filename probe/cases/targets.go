package cases

import (
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// otherMethod plays M03.
func otherMethod(t *run) {
	r := t.New()
	method := anotherMethod(r)
	sendForeign(t, method+" with the key of "+r.Method, probe.Fail, t.First("first", r), r.WithMethod(method))
}

// anotherMethod is PATCH, or POST for a PATCH.
func anotherMethod(r wire.Request) string {
	if r.Method == http.MethodPatch {
		return http.MethodPost
	}
	return http.MethodPatch
}

// otherQuery plays M05. How bad a replay is depends on the profile: the draft's profiles compare the whole target.
func otherQuery(t *run) {
	r := t.New()
	verdict := probe.Info
	switch {
	case t.rules.WholeTarget:
		verdict = probe.Fail
	case t.rules.Compares:
		verdict = probe.Warn
	}
	mark := "?"
	if strings.Contains(r.Path, "?") {
		mark = "&"
	}
	sendForeign(t, "the same path with dry_run=1", verdict, t.First("first", r), r.WithPath(r.Path+mark+"dry_run=1"))
}

// otherRoute plays M04. It uses a key at one route and then at the other, in both directions, because one of the two
// routes may compare less than the other.
func otherRoute(t *run) {
	v := t.intents.Next()
	here, there := t.alikeFrom(t.recipe.Request, v), t.alikeFrom(*t.recipe.Variants.Other, v)
	t.First("the other route with another key", t.Keyed(there(), newKey(t)))
	if wantOtherRoute(t, "the other route with the same key", here, there) {
		wantOtherRoute(t, "the route with the other one's key", there, here)
	}
}

// wantOtherRoute uses the key of a request for another one at another route.
func wantOtherRoute(t *run, what string, one, two func() wire.Request) bool {
	key := newKey(t)
	a, ok := sendForeign(t, what, probe.Fail, t.First("first", t.Keyed(one(), key)), t.Keyed(two(), key))
	switch {
	case !ok:
	case !a.OK() && t.rules.ByRoute:
		t.Failf("%s (%d) was refused with %d; in profile %s each route has its own keys: %s", what, a.No, a.Status,
			t.rules.Name, body(a))
	case !a.OK():
		return wantReason(t, what, a)
	case t.rules.AllRoutes:
		t.Failf("%s (%d) ran with %d; profile %s refuses it with %s", what, a.No, a.Status, t.rules.Name,
			statuses(t.rules.Mismatch))
	}
	return t.Clean()
}

// otherHost plays M14.
func otherHost(t *run) {
	t.First("at the other host, another key", t.New().At(t.recipe.OtherHost))
	r := t.New()
	sendForeign(t, "the same request to "+t.recipe.OtherHost, probe.Fail, t.First("first", r), r.At(t.recipe.OtherHost))
}

// methodOverride plays M15. Most targets ignore the header, which the request under a key of its own shows: it creates
// something as a plain request does.
func methodOverride(t *run) {
	const header = "X-HTTP-Method-Override"
	r := t.New()
	method := anotherMethod(r)
	alone := t.Send(header+": "+method+", a key of its own", t.New().Set(header, method))
	if alone.OK() && t.id(alone) != "" {
		t.Skipf("the target ignores %s", header)
	}
	what := r.Method + " with " + header + ": " + method + ", the same key"
	sendForeign(t, what, probe.Fail, t.First("first", r), r.Set(header, method))
}
