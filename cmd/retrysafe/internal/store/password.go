package store

import (
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const hidden = "xxxxx"

func isPostgres(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// isClear reports whether it is certain where in a URL without query its password is. It is not if the password has
// characters that mean something in a URL.
func isClear(front string) bool {
	_, rest, ok := strings.Cut(front, "://")
	authority, path, _ := strings.Cut(rest, "/")
	_, err := url.Parse(front)
	return ok && err == nil && strings.Count(authority, "@") < 2 && !strings.ContainsAny(path, "@/#") &&
		!strings.Contains(authority, "#")
}

// isClearQuery reports whether no parameter looks like the rest of a password, and a host.
func isClearQuery(query string) bool {
	for param := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(param, "=")
		if strings.ContainsAny(name, "@/:#") || strings.Contains(value, "@") && name != "notify" {
			return false
		}
	}
	return true
}

// hidePassword makes a URL whose front is clear fit to print.
func hidePassword(text string) string {
	front, query, hasQuery := strings.Cut(text, "?")
	scheme, rest, _ := strings.Cut(front, "://")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, _, has := strings.Cut(rest[:at], ":")
		if has {
			user += ":" + hidden
		}
		rest = user + rest[at:]
	}
	front = scheme + "://" + rest
	if !hasQuery {
		return front
	}
	params := strings.Split(query, "&")
	for i, param := range params {
		name, value, _ := strings.Cut(param, "=")
		params[i] = name + "=" + hideIn(name, value)
	}
	return front + "?" + strings.Join(params, "&")
}

// hideIn covers the passwords in the value of a parameter, however its name is written: that a name is not known is said
// with the URL.
func hideIn(name, value string) string {
	decoded, err := url.PathUnescape(name)
	if err != nil || strings.Contains(strings.ToLower(decoded), "password") {
		return hidden
	}
	if name != "notify" {
		return value
	}
	direct, err := url.PathUnescape(value)
	if err != nil {
		return hidden
	}
	return inner.Replace(hidePassword(direct))
}

// parseProblem says what pgx did not like, without the URL, which has been shown.
func parseProblem(err error) string {
	text := err.Error()
	if wrong := new(pgconn.ParseConfigError); errors.As(err, &wrong) {
		if _, after, ok := strings.Cut(text, "`: "); ok {
			return after
		}
	}
	return text
}
