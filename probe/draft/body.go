package draft

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// draft returns the draft of what the command sends.
func (c *curl) draft() (*Draft, error) {
	if c.url == "" {
		return nil, errors.New("the curl command has no URL")
	}
	if !strings.Contains(c.url, "://") {
		c.url = "http://" + c.url
	}
	u, err := url.Parse(c.url)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of an API", c.url)
	}
	d := &Draft{Source: "a curl command", Target: u.Scheme + "://" + u.Host, Method: c.method, Path: c.path(u)}
	if c.isGet {
		c.data = nil
	}
	if u.User != nil && c.user == "" {
		c.user = userOf(u.User)
	}
	d.Body = strings.Join(c.data, c.separator())
	if d.Method == "" {
		d.Method = http.MethodGet
		if len(c.data) > 0 {
			d.Method = http.MethodPost
		}
	}
	if d.Method == http.MethodGet || d.Method == http.MethodHead {
		return nil, fmt.Errorf("the curl command is a %s, but the probe needs a request that creates "+
			"something, such as a POST", d.Method)
	}
	d.lines = c.allLines()
	d.complete()
	return d, nil
}

// separator returns what curl puts between two -d options: & in a form, nothing with --json.
func (c *curl) separator() string {
	if c.isJSON {
		return ""
	}
	return "&"
}

// path returns the path and query of the URL, with the characters escaped that a request line must not have.
func (c *curl) path(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	query := u.RawQuery
	if c.isGet && len(c.data) > 0 {
		query = strings.TrimPrefix(query+"&"+strings.Join(c.data, "&"), "&")
	}
	if query != "" {
		path += "?" + query
	}
	return printable(path)
}

// allLines returns the header lines that curl sends, with those that it adds itself.
func (c *curl) allLines() []line {
	lines := slices.Clone(c.lines)
	if c.user != "" && !hasLine(lines, "Authorization") {
		lines = append(lines, line{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(c.user))})
	}
	switch {
	case len(c.data) == 0 || c.isGet || hasLine(lines, "Content-Type"):
	case c.isJSON:
		lines = append(lines, line{"Content-Type", "application/json"})
	default:
		lines = append(lines, line{"Content-Type", "application/x-www-form-urlencoded"})
	}
	if c.isJSON && !hasLine(lines, "Accept") {
		lines = append(lines, line{"Accept", "application/json"})
	}
	return lines
}

// userOf returns user and password as they stand in a URL.
func userOf(u *url.Userinfo) string {
	password, _ := u.Password()
	return u.Username() + ":" + password
}

// hasLine reports whether there is a line of that name, in any case.
func hasLine(lines []line, name string) bool {
	return slices.ContainsFunc(lines, func(l line) bool { return strings.EqualFold(l.name, name) })
}

// printable escapes the characters of a path that a request line must not have.
func printable(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c > '~' || c == '#' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
