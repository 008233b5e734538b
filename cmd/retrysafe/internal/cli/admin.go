package cli

import "net/url"

// AdminAddress reads the admin address of a proxy, which the user has given as what: a flag or an argument. The error
// is a refusal.
func AdminAddress(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, Refusef("%s%q is not the admin address of a proxy: write http://127.0.0.1:8081", what, text)
	}
	return u, nil
}
