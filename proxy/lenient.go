package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// lenientRoutes are the routes with their patterns in lower case. Paths are matched with them as lenient upstreams
// read paths: without regard to letter case, trailing and doubled slashes, dot segments, path parameters (";x=1"),
// and whether slashes are escaped or written as backslashes. Otherwise "/Payments/" could avoid what is required of
// "/payments".
type lenientRoutes struct {
	muxes   []*http.ServeMux // more than one only if patterns conflict that differ in letter case
	byRoute map[*routeHandler]*lenientRoute
}

// lenientRoute is a route in lenientRoutes. It is a handler so that a ServeMux can hold it.
type lenientRoute struct {
	route     *routeHandler
	own       *http.ServeMux // with this route only
	wildcards []wildcard
	subtree   bool // it matches everything below a path
}

// wildcard is a named segment of a pattern.
type wildcard struct {
	name    string
	segment int
	rest    bool // all segments from there on
}

// ServeHTTP implements http.Handler. It is never called.
func (l *lenientRoute) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.route.ServeHTTP(w, r) }

// add adds a route whose pattern is valid.
func (l *lenientRoutes) add(h *routeHandler) {
	pattern, wildcards := foldPattern(h.pattern)
	route := &lenientRoute{route: h, own: http.NewServeMux(), wildcards: wildcards}
	route.subtree = strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "...}")
	register(route.own, pattern, route)
	if l.byRoute == nil {
		l.byRoute = map[*routeHandler]*lenientRoute{}
	}
	l.byRoute[h] = route
	for _, mux := range l.muxes {
		if register(mux, pattern, route) == "" {
			return
		}
	}
	mux := http.NewServeMux()
	register(mux, pattern, route)
	l.muxes = append(l.muxes, mux)
}

// match returns the most specific route that matches; nil if there is none.
func (l *lenientRoutes) match(r *http.Request) *lenientRoute {
	for _, mux := range l.muxes {
		if found, _ := mux.Handler(r); found != nil {
			if route, ok := found.(*lenientRoute); ok { // otherwise ServeMux would redirect or refuse
				return route
			}
		}
	}
	return nil
}

// matches reports whether this route alone matches.
func (l *lenientRoute) matches(r *http.Request) bool {
	found, _ := l.own.Handler(r)
	return found == http.Handler(l)
}

// setPathValues sets the values of the wildcards of the pattern.
func (l *lenientRoute) setPathValues(r *http.Request, path []string) {
	for _, w := range l.wildcards {
		switch {
		case w.rest:
			r.SetPathValue(w.name, strings.Join(path[min(w.segment, len(path)):], "/"))
		case w.segment < len(path):
			r.SetPathValue(w.name, path[w.segment])
		}
	}
}

// foldPattern returns a pattern in lower case, except for its method. Its wildcards are renamed, so that no two
// become equal.
func foldPattern(pattern string) (folded string, wildcards []wildcard) {
	method := ""
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		method, pattern = pattern[:i]+" ", strings.TrimLeft(pattern[i:], " \t")
	}
	host, path, _ := strings.Cut(pattern, "/")
	segments := strings.Split(path, "/")
	for i, s := range segments {
		name, isWildcard := strings.CutPrefix(s, "{")
		name = strings.TrimSuffix(name, "}")
		switch {
		case s == "{$}":
		case isWildcard:
			name, rest := strings.CutSuffix(name, "...")
			wildcards = append(wildcards, wildcard{name, i, rest})
			segments[i] = strings.Replace(s, name, fmt.Sprint("w", i), 1)
		default:
			segments[i] = url.PathEscape(strings.ToLower(unescaped(s)))
		}
	}
	return method + strings.ToLower(host) + "/" + strings.Join(segments, "/"), wildcards
}

// lenientPath returns the segments of an escaped path as lenient upstreams read it, and whether it has dot segments.
func lenientPath(escaped string) (segments []string, dots bool) {
	for part := range strings.SplitSeq(escaped, "/") {
		part, _, _ = strings.Cut(part, ";")
		for _, segment := range strings.FieldsFunc(unescaped(part), isSlash) {
			switch segment {
			case ".":
				dots = true
			case "..":
				dots = true
				segments = segments[:max(len(segments)-1, 0)]
			default:
				segments = append(segments, segment)
			}
		}
	}
	return segments, dots
}

func isSlash(c rune) bool { return c == '/' || c == '\\' }

// lenientForms returns a path without and with a slash at its end, in lower case; the form in which it was written
// comes first.
func lenientForms(segments []string, asWritten string) []string {
	path := "/" + strings.ToLower(strings.Join(segments, "/"))
	if path == "/" {
		return []string{path}
	}
	forms := []string{path, path + "/"}
	if strings.HasSuffix(asWritten, "/") {
		slices.Reverse(forms)
	}
	return forms
}

// unescaped decodes percent-encoding. Invalid encoding is left as it is.
func unescaped(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}
