package dashboard

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Link leads from a key to a page of another site, such as the dashboard of a payment provider. ParseLink makes one.
type Link struct{ Name, Template string }

const maxLinkName = 40 // bytes

var (
	placeholder = regexp.MustCompile(`\{([^{}]*)\}`)
	// origin is what no value can change, because it ends before the first placeholder.
	origin = regexp.MustCompile(`^(?i:https?)://[^/?#\\@{}\s]+([/?#]|$)`)
)

// ParseLink checks a link. {digest} in the template stands for the key's digest, {upstream_key} for the key that the
// proxy's upstream got, {tag:NAME} for a tag of the key; they may stand behind the host only. The error is one of yamlfile.Wrong.
func ParseLink(name, template string) (Link, error) {
	l := Link{name, template}
	const example = "https://dashboard.stripe.com/search?query={tag:order}"
	if name == "" || name != cli.Clean(name) || name != strings.TrimSpace(name) || len(name) > maxLinkName {
		return l, yamlfile.Wrong(fmt.Sprintf("%q is no name for a link", name),
			fmt.Sprintf("write up to %d bytes of text, such as Stripe", maxLinkName))
	}
	for _, found := range placeholder.FindAllStringSubmatch(template, -1) {
		tag, isTag := strings.CutPrefix(found[1], "tag:")
		_, err := retrysafe.NewTags(map[string]string{tag: "value"})
		if found[1] != "digest" && found[1] != "upstream_key" && (!isTag || err != nil) {
			return l, yamlfile.Wrong(found[0]+" is no placeholder", "write {digest}, {upstream_key}, or {tag:NAME} with the name of a tag")
		}
	}
	filled := placeholder.ReplaceAllString(template, "x")
	u, err := url.Parse(filled)
	switch {
	case strings.ContainsAny(filled, "{}"):
		return l, yamlfile.Wrong("a brace has no counterpart",
			"write {digest}, {upstream_key} or {tag:NAME}, and %7B and %7D for braces of the URL")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil:
		return l, yamlfile.Wrong("a link must be an HTTP URL", "write https:// or http:// and a host, without user: "+example)
	case !origin.MatchString(template):
		return l, yamlfile.Wrong("a placeholder stands in the host", "write it behind the host: "+example)
	case strings.ContainsAny(template, " \"<>\\^`|"):
		return l, yamlfile.Wrong("a character of the link cannot be in a URL", "write it percent-encoded: %20 for a space")
	case hasDots(u):
		return l, yamlfile.Wrong("the path has the part . or ..", "write the path without it")
	}
	return l, nil
}

// hasDots reports whether the path has a part that browsers leave out together with the part before it.
func hasDots(u *url.URL) bool {
	parts := strings.Split(u.Path, "/")
	return slices.Contains(parts, ".") || slices.Contains(parts, "..")
}

// newLinks reads the links of flags, and returns them in the order of their names.
func newLinks(templates map[string]string) (all []Link, err error) {
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		l, err := ParseLink(name, templates[name])
		if err != nil {
			return nil, yamlfile.ForFlag("--link "+cli.Clean(name), err)
		}
		all = append(all, l)
	}
	return all, nil
}

// of returns the link for a key; "" if the key lacks what a placeholder stands for, or if the tag would lead to another place of the site.
// Everything but letters, digits and -_.~ of a value is escaped, so that a value stays one part of a path, or one
// parameter.
func (l Link) of(r keys.Record) string {
	isWhole := true
	text := placeholder.ReplaceAllStringFunc(l.Template, func(p string) string {
		value := r.Digest
		if tag, ok := strings.CutPrefix(strings.Trim(p, "{}"), "tag:"); ok {
			value = r.Tags[tag]
		} else if p == "{upstream_key}" {
			value = r.UpstreamKey
		}
		isWhole = isWhole && value != ""
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	})
	if u, err := url.Parse(text); err != nil || hasDots(u) || !isWhole {
		return ""
	}
	return text
}

// shownLink is a link of a key on a page.
type shownLink struct{ Name, URL string }

func (q *request) linksOf(r keys.Record) (all []shownLink) {
	for _, l := range q.options.Links {
		if to := l.of(r); to != "" {
			all = append(all, shownLink{l.Name, to})
		}
	}
	return all
}
