package draft

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FromOpenAPIRoutes makes a draft with a route for each of the operations, or for all that are a POST if none is
// named. One operation makes the same draft as with FromOpenAPI. A recipe has its keys in one place: of operations that
// are not named, those with keys in another place than most are left out with a note. Named ones are an error.
func FromOpenAPIRoutes(source []byte, operations []string) (*Draft, error) {
	doc, err := newOpenAPI(source)
	if err != nil {
		return nil, err
	}
	var all []*Draft
	var left []string // notes about operations that are left out
	for _, o := range doc.operations() {
		if len(operations) > 0 || o.method != "POST" {
			continue
		}
		d, err := doc.draft(o)
		if err != nil {
			left = append(left, fmt.Sprintf("%s was left out: %v.", o.name(), err))
			continue
		}
		d.routeName = routeName(o)
		all = append(all, d)
	}
	for _, name := range operations {
		o, err := doc.find(name)
		if err != nil {
			return nil, err
		}
		d, err := doc.draft(o)
		if err != nil {
			return nil, err
		}
		d.routeName = routeName(o)
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, errors.New("the document has no POST operation that can be made a route")
	}
	return joined(all, left, len(operations) > 0)
}

// joined returns one draft with a route for each of several.
func joined(all []*Draft, left []string, strict bool) (*Draft, error) {
	whole := all[0]
	most := map[string]int{}
	for _, d := range all {
		if d.hasKey() {
			most[d.keyPlace()]++
		}
	}
	for _, d := range all {
		if !whole.hasKey() || most[d.keyPlace()] > most[whole.keyPlace()] {
			whole = d
		}
	}
	for _, d := range all {
		switch why := whole.unlike(d); {
		case why == "":
			whole.Routes = append(whole.Routes, d)
		case strict:
			return nil, errors.New(d.Method + " " + d.Path + " " + why)
		default:
			left = append(left, d.Method+" "+d.Path+" "+why+".")
		}
		if len(whole.credentials) == 0 {
			whole.credentials = d.credentials
		}
	}
	whole.left = left
	whole.uniqueNames()
	if len(whole.Routes) == 1 {
		whole.Routes = nil
		return whole, nil
	}
	whole.Source = "operations of an OpenAPI document"
	return whole, nil
}

// unlike says why a request cannot be in the same recipe; "": it can.
func (d *Draft) unlike(r *Draft) string {
	switch {
	case r.Target != d.Target:
		return "is at another server, " + r.Target + ": write a recipe of its own for it"
	case r.hasKey() && r.keyPlace() != d.keyPlace():
		return "has its key in another place: write a recipe of its own for it"
	}
	return ""
}

// Makes says which requests make something: POST /payments, or the name of a method.
func (d *Draft) Makes() string {
	all := d.Routes
	if len(all) == 0 {
		all = []*Draft{d}
	}
	var made []string
	for _, r := range all {
		made = append(made, strings.TrimSpace(r.Method+" "+r.Path+r.Call))
	}
	return strings.Join(made, ", ")
}

// routeName returns the name of an operation's route.
func routeName(o operation) string {
	name := o.id()
	if name == "" {
		name = o.method + o.path
	}
	name = strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' {
			return c
		}
		return '-'
	}, name), "-")
	return name[:min(len(name), 50)]
}

// uniqueNames gives routes of the same name a number.
func (d *Draft) uniqueNames() {
	var used []string
	for i, r := range d.Routes {
		if r.routeName == "" || slices.Contains(used, r.routeName) {
			r.routeName = strings.TrimPrefix(fmt.Sprintf("%s-%d", r.routeName, i+1), "-")
		}
		used = append(used, r.routeName)
	}
}
