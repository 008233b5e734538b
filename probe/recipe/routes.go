package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/probe"
)

// Route is one of several requests that a recipe has cases played for.
type Route struct {
	Name string // "": the recipe has one request only
	// Recipe is that of the file with what the route says otherwise. It lacks what OpenRoutes adds.
	Recipe probe.Recipe

	count countSettings
}

// Routes returns the routes of a recipe. One that has no routes has one without a name.
func (f *File) Routes() []Route {
	if len(f.routes) > 0 {
		return f.routes
	}
	return []Route{{Recipe: f.Recipe}}
}

// KeepRoutes leaves out the routes that are not named; without names it leaves out none. It returns an error for a name
// that no route has.
func (f *File) KeepRoutes(names []string) error {
	var all []string
	for _, route := range f.routes {
		all = append(all, route.Name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("the recipe has no route %q; it has: %s", name, cmp.Or(strings.Join(all, ", "), "none"))
		}
	}
	if len(names) > 0 {
		f.routes = slices.DeleteFunc(f.routes, func(r Route) bool { return !slices.Contains(names, r.Name) })
		f.Recipe = f.routes[0].Recipe
	}
	return nil
}

// SetProfile replaces the rules that the recipe declares by those of a profile, or of a profile's file. It returns an
// error for a name that the recipe's protocol does not have, and for a file that cannot be read or is wrong.
func (f *File) SetProfile(name string) error {
	set := func(r *probe.Recipe) { r.Profile, r.Rules = name, nil }
	switch all := f.Protocol(); {
	case f.grpc == nil && profiles.IsFile(name):
		p, err := loadProfile(name)
		if err != nil {
			return err
		}
		set = func(r *probe.Recipe) { declare(r, p) }
	case !slices.Contains(all.Profiles, name):
		return fmt.Errorf("there is no such profile for %s; supported: %s", all.Name, strings.Join(all.Profiles, ", "))
	}
	set(&f.Recipe)
	for i := range f.routes {
		set(&f.routes[i].Recipe)
	}
	return nil
}

// routeParser is a route as the file has it.
type routeParser struct {
	parser
	at      ast.Node
	name    string
	keySays bool // it has key_required itself
}

// readRoutes reads the list of routes.
func (p *parser) readRoutes(r *yamlfile.Reader, n ast.Node) {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.Fault(n, "routes must be a list with at least one route",
			"write a list, as in: - {name: pay, request: {path: /payments, body: '…'}}")
		return
	}
	p.routesAt = n
	for i, item := range list.Values {
		what := fmt.Sprintf("routes[%d]", i)
		t := &routeParser{parser: parser{file: &File{}, env: p.env, variants: map[string]*request{}}, at: item}
		r.Mapping(item, what, map[string]yamlfile.Field{
			"name":     yamlfile.Scalar(&t.name, routeName),
			"request":  t.request.read(p.env, what+".request"),
			"identity": t.identity,
			"setup":    readSetup(&t.setup, p.env, what+".setup"),
			"variants": t.readVariants,
			"count":    t.file.count.read(p.env),
			"key_required": func(r *yamlfile.Reader, n ast.Node) {
				t.keySays = true
				yamlfile.Scalar(&t.file.Recipe.KeyRequired, yamlfile.Bool)(r, n)
			},
		})
		p.routes = append(p.routes, t)
	}
}

// routeName accepts a name that can stand in a command line and in reports.
func routeName(s string) (string, error) {
	if s == "" || len(s) > 60 || s != identifierOf(s) {
		return "", yamlfile.Wrong(fmt.Sprintf("%q cannot be the name of a route", s),
			"write at most 60 letters, digits, dots, dashes and _, as in complete-session")
	}
	return s, nil
}

// identifierOf leaves out what a name cannot have.
func identifierOf(s string) string {
	return string(slices.DeleteFunc([]rune(s), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
	}))
}

// finishRoutes gives each route what it leaves out, and another one for the case that uses a key at two routes.
func (p *parser) finishRoutes(r *yamlfile.Reader) {
	if p.request.at != nil {
		r.Fault(p.request.at, "a recipe has either request or routes", "move the request into routes, with a name")
	}
	for name, q := range p.variants {
		r.Fault(q.at, "variants."+name+" does not say which route it is of", "move variants into the route")
	}
	names := map[string]bool{}
	for _, t := range p.routes {
		if t.name == "" && r.Found() == 0 {
			r.Fault(t.at, "the route has no name", "write name: complete")
		}
		if t.name != "" && names[t.name] {
			r.Fault(t.at, "two routes have the name "+t.name, "give each a name of its own")
		}
		names[t.name] = true
		p.file.routes = append(p.file.routes, t.finished(r, p))
	}
	shareOther(p.file.routes)
	p.file.Recipe = p.file.routes[0].Recipe
}

// finished returns the route with what the recipe says for all of them.
func (t *routeParser) finished(r *yamlfile.Reader, p *parser) Route {
	own := t.file.Recipe
	t.file.Recipe = p.file.Recipe
	t.file.Recipe.Route = t.name
	if own.Identity != (probe.Identity{}) {
		t.file.Recipe.Identity = own.Identity
	}
	if t.keySays {
		t.file.Recipe.KeyRequired = own.KeyRequired
	}
	if len(t.setup) == 0 {
		t.setup = p.setup
	}
	if t.request.at == nil && r.Found() == 0 {
		r.Fault(t.at, "the route has no request", "write request: {path: /payments, body: '…'}")
	}
	t.finishRequest(r)
	return Route{Name: t.name, Recipe: t.file.Recipe, count: t.file.count}
}

// shareOther makes the next route with another method or path the variant other of a route that has none.
func shareOther(all []Route) {
	for i := range all {
		for j := 1; j < len(all) && all[i].Recipe.Variants.Other == nil; j++ {
			next := all[(i+j)%len(all)].Recipe.Request
			if next.Method != all[i].Recipe.Request.Method || next.Path != all[i].Recipe.Request.Path {
				all[i].Recipe.Variants.Other = &next
			}
		}
	}
}

// isCounted reports whether a route has a count of its own.
func (r Route) isCounted() bool {
	return r.count.get != nil || r.count.sql != nil || r.count.webhook != nil
}
