package config

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// observes reports whether the requests of the route are observed; with enforce_for, those of some callers are not.
func (t Route) observes() bool { return t.isGuarded() && t.Mode.Value == "observe" }

// Observes reports whether the requests of a route are observed.
func (c *Config) Observes() bool {
	return slices.ContainsFunc(append(c.overridden(), c.Defaults), Route.observes)
}

// ObserveAll makes the mode of every route observe, for every caller.
func (c *Config) ObserveAll() {
	for i := range c.Routes {
		c.Routes[i].observe()
	}
	c.Defaults.observe()
}

func (t *Route) observe() {
	t.Mode = Setting[string]{Value: "observe", Set: true}
	t.EnforceFor = Setting[[]string]{}
}

// parsePercent reads a share such as 10%; isShare is false for what is the name of a caller.
func parsePercent(s string) (share float64, isShare bool) {
	number, isShare := strings.CutSuffix(s, "%")
	n, err := strconv.ParseFloat(number, 64)
	return n / 100, isShare && err == nil && n > 0 && n <= 100
}

// parseEnforced checks a caller or a share of all callers. It does not repeat what some users write: a credential.
func parseEnforced(s string) (string, error) {
	if _, isShare := parsePercent(s); s == "" || strings.HasSuffix(s, "%") && !isShare {
		return "", yamlfile.Wrong("this is neither a caller nor a share of all callers", "write 10% or 0.5%, or a caller's name")
	}
	return s, nil
}

// enforced returns the function that says whether a caller is one of those for whom the route is enforced; nil: none is.
// The share of callers is chosen by a hash of their names, so that a caller stays in it on every route and in every proxy,
// and when the share grows.
func (t Route) enforced() func(caller string) bool {
	if !t.EnforceFor.Set {
		return nil
	}
	names, share := map[string]bool{}, 0.0
	for _, item := range t.EnforceFor.Value {
		if part, isShare := parsePercent(item); isShare {
			share = part
		}
		names[item] = true
	}
	return func(caller string) bool {
		sum := sha256.Sum256([]byte("retrysafe enforce_for\n" + caller))
		return names[caller] || float64(binary.BigEndian.Uint64(sum[:]))/math.MaxUint64 < share
	}
}

// checkMode finds callers for whom nothing is enforced.
func (c *Config) checkMode(r *yamlfile.Reader, t Route) {
	at := t.EnforceFor.At
	switch shares := slices.DeleteFunc(slices.Clone(t.EnforceFor.Value), isName); {
	case !t.EnforceFor.Set:
	case t.Mode.Value != "observe":
		r.FaultAt(at, "without mode: observe the route is enforced for every caller", "write mode: observe too, or leave "+
			"enforce_for out")
	case c.Scope.Value == "none":
		r.FaultAt(at, "with scope: none all requests have the same caller", "leave enforce_for or scope: none out")
	case len(shares) > 1:
		r.FaultAt(at, fmt.Sprintf("%d shares: the largest includes the others", len(shares)), "keep the largest")
	default:
		yamlfile.Secretly(func(r *yamlfile.Reader, _ ast.Node) { c.checkEnforced(r, t) })(r, nil)
	}
}

// checkEnforced finds names that no request has. Some users write the credential itself.
func (c *Config) checkEnforced(r *yamlfile.Reader, t Route) {
	if c.Scope.Set && c.Scope.Value != "credential" {
		return
	}
	for _, item := range t.EnforceFor.Value {
		inCallers := slices.ContainsFunc(c.Callers, func(same sameCaller) bool { return same.name == item })
		if isName(item) && !inCallers && !isDigest.MatchString(item) {
			r.FaultAt(t.EnforceFor.At, "a caller is named by the hash of the credential or by a name in callers, and this is "+
				"neither", "write 'sha256:…' with what this prints: printf %s 'Bearer KEY' | sha256sum")
		}
	}
}

// isName reports whether an item of enforce_for is a caller, and not a share of all.
func isName(item string) bool {
	_, isShare := parsePercent(item)
	return !isShare
}
