package store

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

const (
	// connectTimeout is how long a server may take to accept a connection.
	connectTimeout = 5 * time.Second
	// dropPatience is how long dropping a place may take.
	dropPatience = 20 * time.Second
)

// serverURL is the URL of a server: what comes before the query, and parameters that nobody has taken yet.
type serverURL struct {
	name   string // to print: without passwords
	front  string
	params url.Values
}

// readURL takes a URL apart. For the error, shape is how such a URL looks, and instead where else a password may be.
func readURL(text, shape, instead string) (*serverURL, error) {
	front, query, _ := strings.Cut(text, "?")
	params, err := parseQuery(query)
	if err != nil || !isClear(front) || !isClearQuery(query) {
		return nil, cli.Refusef("the store's URL cannot be read: write %s?NAME=VALUE&… "+
			"with %%40, %%2F, %%3A, %%3F, %%23 for the characters @/:?# in the password%s; there is: %s",
			shape, instead, strings.SplitAfter(text, ":")[0]+"…")
	}
	return &serverURL{name: hidePassword(text), front: front, params: params}, nil
}

// parseQuery reads the parameters of a URL. A + is a +, as in libpq and as in a path: url.ParseQuery, which is for forms,
// would open the file "shop eu.db" for shop+eu.db.
func parseQuery(query string) (url.Values, error) {
	params := url.Values{}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.PathUnescape(name)
		value, err := url.PathUnescape(value)
		if err := cmp.Or(nameErr, err); err != nil {
			return nil, err
		}
		params.Add(name, value)
	}
	return params, nil
}

// encodeQuery writes a space as %20, which parseQuery reads, and the drivers of every language.
func encodeQuery(params url.Values) string { return strings.ReplaceAll(params.Encode(), "+", "%20") }

// refusef is an error about the URL.
func (u *serverURL) refusef(format string, args ...any) error {
	return cli.Refusef("store %s: %w", u.name, fmt.Errorf(format, args...))
}

// take removes a parameter and returns its value, or otherwise if it is missing or empty.
func (u *serverURL) take(param, otherwise string) string {
	defer u.params.Del(param)
	return cmp.Or(u.params.Get(param), otherwise)
}

// takeNumber is take for a whole number within bounds.
func (u *serverURL) takeNumber(param string, otherwise, least, most int) (int, error) {
	text := u.take(param, strconv.Itoa(otherwise))
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, u.refusef("%s=%s is no number from %d to %d", param, text, least, most)
	}
	return n, nil
}

// takeDuration is take for a duration that is not negative.
func (u *serverURL) takeDuration(param string, otherwise time.Duration) (time.Duration, error) {
	text := u.take(param, otherwise.String())
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, u.refusef("%s=%s is no duration, such as 500ms or 2s", param, text)
	}
	return d, nil
}

// takeSwitch is take for true or false.
func (u *serverURL) takeSwitch(param string) (bool, error) {
	text := u.take(param, "false")
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, u.refusef("%s=%s: write true or false", param, text)
	}
	return on, nil
}

// refuseOthers returns an error if a parameter is left that is not one of these.
func (u *serverURL) refuseOthers(known ...string) error {
	for _, param := range slices.Sorted(maps.Keys(u.params)) {
		if !slices.Contains(known, param) {
			return u.refusef("unknown parameter %s", param)
		}
	}
	return nil
}

// withParam returns a URL that could be read, with another value of a parameter.
func withParam(text, param, value string) string {
	front, query, _ := strings.Cut(text, "?")
	params, _ := parseQuery(query)
	params.Set(param, value)
	return front + "?" + encodeQuery(params)
}
