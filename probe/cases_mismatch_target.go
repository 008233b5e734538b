package probe

import (
	"net/http"
	"strings"
)

func otherMethod(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	method := http.MethodPatch
	if r.Method == method {
		method = http.MethodPost
	}
	t.foreign(method+" with the key of "+r.Method, Fail, first, r.WithMethod(method))
}

func otherQuery(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	v := Info
	switch {
	case t.Rules.WholeTarget:
		v = Fail
	case t.Rules.Compares:
		v = Warn
	}
	mark := "?"
	if strings.Contains(r.Path, "?") {
		mark = "&"
	}
	t.foreign("the same path with dry_run=1", v, first, r.WithPath(r.Path+mark+"dry_run=1"))
}

// otherRoute uses a key at one route and then at the other, both ways: what is compared may differ from route to route.
func otherRoute(t *Trial) {
	v := t.Intent()
	here, there := t.For(v), t.From(*t.Recipe.Variants.Other, v)
	if _, ok := t.Works("the other route with another key", t.Keyed(there, t.NewKey())); !ok {
		return
	}
	if t.elsewhere("the other route with the same key", here, there) {
		t.elsewhere("the route with the other one's key", there, here)
	}
}

// elsewhere uses the key of a request for another one at another route.
func (t *Trial) elsewhere(what string, one, two Request) bool {
	key := t.NewKey()
	first, ok := t.Works("first", t.Keyed(one, key))
	if !ok {
		return false
	}
	a, ok := t.foreign(what, Fail, first, t.Keyed(two, key))
	switch {
	case !ok:
	case !a.OK() && t.Rules.ByRoute:
		t.Failf("%s (%d) was refused with %d; in profile %s a key belongs to its route: %s", what, a.No, a.Status, t.Rules.Name, trimmed(a.Body, 200))
	case !a.OK():
		return t.wantToldWhy(what, a)
	case t.Rules.AllRoutes:
		t.Failf("%s (%d) was carried out with %d; profile %s refuses it with %s", what, a.No, a.Status, t.Rules.Name, statuses(t.Rules.Mismatch))
	}
	return t.Clean()
}

func otherHost(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	if _, ok := t.Works("at the other host, another key", t.Keyed(t.Fresh(), t.NewKey()).At(t.Recipe.OtherHost)); !ok {
		return
	}
	if first, ok := t.Works("first", r); ok {
		t.foreign("the same request to "+t.Recipe.OtherHost, Fail, first, r.At(t.Recipe.OtherHost))
	}
}

// methodOverride is for targets that do what a header says in the place of the method. Whether one does shows under a new key.
func methodOverride(t *Trial) {
	const header = "X-HTTP-Method-Override"
	r := t.Keyed(t.Fresh(), t.NewKey())
	method := http.MethodPatch
	if r.Method == method {
		method = http.MethodPost
	}
	alone := t.Send(header+": "+method+", a key of its own", t.Keyed(t.Fresh(), t.NewKey()).Set(header, method))
	if alone.OK() && t.Recipe.Identity.of(alone) != "" {
		t.NAf("the target takes no notice of %s", header)
		return
	}
	if first, ok := t.Works("first", r); ok {
		t.foreign(r.Method+" with "+header+": "+method+", the same key", Fail, first, r.Set(header, method))
	}
}
