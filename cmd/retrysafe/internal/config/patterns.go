package config

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/proxy"
)

// checkPatterns finds patterns that cannot be read, that match nothing their author can have meant, that are there
// twice, or that contradict each other.
func checkPatterns(r *yamlfile.Reader, routes []Route) {
	patterns := make([]string, len(routes))
	for i, t := range routes {
		patterns[i] = t.Pattern.Value
	}
	misread := make([]bool, len(routes))
	for i, p := range patterns {
		message, instead := adviseOn(p)
		if misread[i] = message != ""; misread[i] {
			r.FaultAt(routes[i].Pattern.At, message, instead)
		}
	}
	for _, bad := range proxy.CheckPatterns(patterns) {
		at := routes[bad.Index].Pattern.At
		switch {
		case misread[bad.Index]: // advice has been given
		case bad.With < 0:
			instead := `write a method and a path as in "POST /payments/{id}"`
			if strings.Contains(bad.Reason, "wildcard name") {
				instead = "names in braces have letters, digits and underscores: {order_id}"
			}
			r.FaultAt(at, fmt.Sprintf("%q is no pattern: %s", patterns[bad.Index], bad.Reason), instead)
		default:
			other := routes[bad.With].Pattern
			r.FaultAt(at, fmt.Sprintf("%q conflicts with %q in line %d: neither is the more specific",
				patterns[bad.Index], other.Value, other.At.Line), "make one of them match less")
		}
	}
}

// splitPattern returns the parts of a pattern as net/http reads them. The host is what precedes the first slash.
func splitPattern(p string) (method, host, path string) {
	rest := p
	if i := strings.IndexAny(p, " \t"); i >= 0 {
		method, rest = p[:i], strings.TrimLeft(p[i+1:], " \t")
	}
	slash := max(0, strings.IndexByte(rest, '/'))
	return method, rest[:slash], rest[slash:]
}

// adviseOn returns what is wrong with a pattern that net/http accepts, or refuses without saying what to write,
// because other routers write patterns in another way. Such a route would match nothing, and its requests would pass
// under the defaults. The message is empty if nothing is wrong.
func adviseOn(p string) (message, instead string) {
	method, host, path := splitPattern(p)
	capitals := strings.ToUpper(method)
	switch {
	case method == "*" || capitals == "ANY" || capitals == "ALL":
		return fmt.Sprintf("%q is taken for the name of a method", method), fmt.Sprintf("leave it out: write %q", host+path)
	case method != capitals:
		return fmt.Sprintf("%q matches no request: methods are written in capitals", p),
			fmt.Sprintf("write %q", capitals+" "+host+path)
	case strings.ContainsAny(path, "?#"):
		path = path[:strings.IndexAny(path, "?#")]
		return fmt.Sprintf("%q matches no request: a pattern has no query", p),
			fmt.Sprintf("write %q", join(method, host+path))
	case host != "" && !strings.ContainsAny(host, ".:{") && host != "localhost":
		return fmt.Sprintf("%q is taken for the name of a host", host), fmt.Sprintf("write %q", join(method, "/"+host+path))
	}
	return adviseOnWildcards(method, host, path)
}

func join(method, rest string) string { return strings.TrimSpace(method + " " + rest) }

// foreignWildcard matches a segment as other routers write it: <id>, <int:id>, :id, [id]. The second group is the
// name.
var foreignWildcard = regexp.MustCompile(`^(<(?:[^:>]*:)?([^>]*)>|:(.+)|\[(.+)\])$`)

var noName = regexp.MustCompile(`[^A-Za-z0-9_]`)

func adviseOnWildcards(method, host, path string) (message, instead string) {
	segments := strings.Split(path, "/")
	taken := ""
	for i, s := range segments {
		name := ""
		switch m := foreignWildcard.FindStringSubmatch(s); {
		case m != nil:
			name = "{" + noName.ReplaceAllString(m[2]+m[3]+m[4], "_") + "}"
		case strings.Trim(s, "*") == "" && s != "" && i == len(segments)-1:
			name = "{rest...}"
		case strings.Contains(s, "*"):
			name = "{part}"
		default:
			continue
		}
		if taken == "" {
			taken = s
		}
		segments[i] = name
	}
	if taken == "" {
		return "", ""
	}
	right := join(method, host+strings.Join(segments, "/"))
	instead = fmt.Sprintf("write %q", right)
	if before, ok := strings.CutSuffix(right, "{rest...}"); ok {
		instead += fmt.Sprintf(", or %q, for everything below", before)
	}
	return fmt.Sprintf("%q is no wildcard here: only a path with these very letters would match", taken), instead
}

// checkMethod finds routes that guard nothing, because their method is not among those that are guarded.
func (t Route) checkMethod(r *yamlfile.Reader) {
	method, _, _ := splitPattern(t.Pattern.Value)
	guarded := t.rules().Methods
	switch {
	case !t.isGuarded() || method == "" || method != strings.ToUpper(method) || slices.Contains(guarded, method):
	case method == http.MethodConnect:
		r.FaultAt(t.Pattern.At, "the proxy refuses CONNECT requests", "leave the route out")
	case httpkey.IsSafe(method):
		r.FaultAt(t.Pattern.At, fmt.Sprintf("%s requests pass through unguarded: they have no effect to repeat", method),
			"leave the route out, or write guarded: false in it")
	case t.Methods.Set:
		r.FaultAt(t.Pattern.At, fmt.Sprintf("%s requests would pass through unguarded: methods: has only %s", method,
			strings.Join(guarded, ", ")),
			fmt.Sprintf("write methods: [%s], or guarded: false", method))
	default:
		r.FaultAt(t.Pattern.At, fmt.Sprintf("%s requests would pass through unguarded: the profile %s guards %s",
			method, t.profile().Name, strings.Join(guarded, ", ")),
			fmt.Sprintf("write methods: [%s], or guarded: false", method))
	}
}

// isGuarded reports whether keys are looked at.
func (t Route) isGuarded() bool { return !t.Guarded.Set || t.Guarded.Value }
