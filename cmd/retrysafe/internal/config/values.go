package config

import (
	"embed"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// proxyFile reads and describes the proxy's file.
var proxyFile = settings.Kind{Forms: forms, Sources: []fs.FS{source, profiles.Source}}

// source has the comments of the settings.
//
//go:embed config.go route.go verify.go
var source embed.FS

// forms are the ways to read the text of a value that only the proxy's file has, by the names that the tags of settings
// have.
var forms = map[string]settings.Form{
	"attempts":     settings.Between(1, 10),
	"large number": settings.Between(1, 1_000_000_000),
	"address":      settings.NewForm(parseListen, settings.Pattern(`:[0-9]+$`)),
	"upstream":     settings.NewForm(parseUpstream, settings.Pattern(`^[hH](2[cC]|[tT][tT][pP][sS]?)://.`)),
	"auth":         httpURL("auth", "http://localhost:3000/whoami"),
	"reconcile":    httpURL("reconcile", "http://localhost:3000/reconcile"),
	"issuer":       settings.NewForm(dashboard.ParseIssuer, anyHTTP),
	"redirect URL": settings.NewForm(dashboard.ParseRedirectURL, anyHTTP),
	"dashboard":    httpURL("dashboard.url", "https://ops.example.com"),
	"collector":    httpURL("otlp", "http://localhost:4318"),
	"share":        settings.NewForm(parseShare, settings.Schema{"type": "number", "minimum": 0, "maximum": 1}),
	"public URL":   settings.NewForm(parsePublicURL, anyHTTP),
	"scope": settings.NewForm(parseScope,
		settings.Pattern(`^(credential|mtls|aws-access-key|none|jwt:.+|(header|cookie):[A-Za-z0-9_-]+)$`)),
	"enforced": settings.NewForm(parseEnforced, settings.TextPattern(`^([0-9.]+%|.*[^%])$`)),
	"method":   profiles.Method,
	"profile": {Schema: settings.Schema{"anyOf": []settings.Schema{
		{"enum": profiles.Names()}, settings.Pattern(`[./\\]`),
	}}},
	"place":     {Schema: settings.Pattern(`^(/|(header|path|query):.)`)},
	"in flight": {Schema: settings.Pattern(`^(reject|status|wait:.+)$`)},
}

var anyHTTP = settings.Pattern(`^[hH][tT][tT][pP][sS]?://.`)

// httpURL returns the form of the URL of a service that the proxy asks. name is the setting's.
func httpURL(name, example string) settings.Form {
	return settings.NewForm(func(s string) (*url.URL, error) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return nil, yamlfile.Wrong(name+" must be an HTTP URL",
				"write http:// or https:// and a host, without user and fragment: "+example)
		}
		return u, nil
	}, anyHTTP)
}

// parseListen checks an address to listen on.
func parseListen(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no address to listen on", s),
			"write host:port or :port, as in 127.0.0.1:8080")
	}
	return s, nil
}

// parseUpstream checks an upstream's URL.
func parseUpstream(s string) (*url.URL, error) {
	bad := func(why string) error {
		return yamlfile.Wrong(fmt.Sprintf("upstream %q %s", s, why),
			"write http://host:port, https://host or h2c://host:port")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, bad("is no URL")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, bad("has no scheme that the proxy speaks")
	case u.Host == "":
		return nil, bad("names no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, bad("may have a scheme, a host and a path, nothing else")
	}
	return u, nil
}

// parseShare reads a part of a whole.
func parseShare(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(0 <= f && f <= 1) {
		return 0, yamlfile.Wrong(fmt.Sprintf("%q is no share", s), "write a number from 0 to 1: 0.1 for a tenth")
	}
	return f, nil
}

func parsePublicURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no URL that clients could open", s), "write https://api.example.com")
	}
	return strings.TrimSuffix(s, "/"), nil
}

const availableScopes = `credential (the Authorization or X-API-Key header), header:NAME (set by a gateway that you trust), ` +
	`jwt:JWKS-URL (a verified token's issuer and subject), cookie:NAME (a session), mtls (a verified client certificate), ` +
	`aws-access-key (the access key ID of requests signed as AWS has it), none (all callers share their keys)`

// parseScope checks how callers are distinguished. Headers with credentials are refused: header:NAME keeps what the
// header says as it is.
func parseScope(s string) (string, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch {
	case s == "credential" || s == "none" || s == "mtls" || s == "aws-access-key" || kind == "jwt" && rest != "":
		return s, nil
	case kind == "cookie" && settings.IsFieldName(rest):
		return s, nil
	case kind != "header" || !settings.IsFieldName(rest):
		return "", yamlfile.Wrong(fmt.Sprintf("scope %q is not known", s), "write one of: "+availableScopes)
	}
	switch name := strings.ToLower(rest); name {
	case "authorization", "x-api-key":
		return "", yamlfile.Wrong("scope "+s+" would keep credentials as they are",
			"write scope: credential, which keeps a digest of them")
	case "cookie", "proxy-authorization":
		return "", yamlfile.Wrong("scope "+s+" would keep credentials as they are, and a caller is another one when "+
			"they change",
			"write header:X-Tenant for a header in which a gateway says who is calling, jwt:JWKS-URL for verified tokens, or "+
				"cookie:NAME for the session")
	}
	return s, nil
}
