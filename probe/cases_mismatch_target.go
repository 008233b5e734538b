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

func otherRoute(t *Trial) {
	v, key := t.Intent(), t.NewKey()
	other := t.From(*t.Recipe.Variants.Other, v)
	if _, ok := t.Works("the other route with another key", t.Keyed(other, t.NewKey())); !ok {
		return
	}
	first, ok := t.Works("first", t.Keyed(t.For(v), key))
	if !ok {
		return
	}
	const what = "the other route with the same key"
	a, ok := t.foreign(what, Fail, first, t.Keyed(other, key))
	switch {
	case !ok:
	case !a.OK() && t.Rules.ByRoute:
		t.Failf("%s (%d) was refused with %d; in profile %s a key belongs to its route: %s", what, a.No, a.Status, t.Rules.Name, trimmed(a.Body, 200))
	case !a.OK():
		t.wantToldWhy(what, a)
	case t.Rules.AllRoutes:
		t.Failf("%s (%d) was carried out with %d; profile %s refuses it with %s", what, a.No, a.Status, t.Rules.Name, statuses(t.Rules.Mismatch))
	}
}
