package config

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// form is a way to read the text of a value.
type form struct {
	parse  func(string) (any, error) // nil: the type does it
	schema schema                    // the same for editors, without rare ways to write a value, such as a number in quotes
}

// forms are the ways to read the text of a value, by the names that the tags of settings have. The names of types are
// for settings without such a tag.
var forms = map[string]form{
	"bool":          newForm(yamlfile.Bool, schema{"type": "boolean"}),
	"time.Duration": newForm(yamlfile.Duration, pattern(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^[0-9]+d$`)),
	"string":        newForm(yamlfile.Filled, schema{"type": schemaText}),
	"int64":         newForm(parseSize, schema{"type": schemaText, "pattern": `^[0-9]+ *(B|KiB|MiB|GiB)?$`, "minimum": 1}),
	"int":           between(1, 1_000_000),
	"attempts":      between(1, 10),
	"large number":  between(1, 1_000_000_000),
	"address":       newForm(parseListen, pattern(`:[0-9]+$`)),
	"upstream":      newForm(parseUpstream, pattern(`^[hH](2[cC]|[tT][tT][pP][sS]?)://.`)),
	"auth":          newForm(parseHTTP("auth", "http://localhost:3000/whoami"), pattern(`^[hH][tT][tT][pP][sS]?://.`)),
	"reconcile":     newForm(parseHTTP("reconcile", "http://localhost:3000/reconcile"), pattern(`^[hH][tT][tT][pP][sS]?://.`)),
	"collector":     newForm(parseHTTP("otlp", "http://localhost:4318"), pattern(`^[hH][tT][tT][pP][sS]?://.`)),
	"share":         newForm(parseShare, schema{"type": "number", "minimum": 0, "maximum": 1}),
	"public URL":    newForm(parsePublicURL, pattern(`^[hH][tT][tT][pP][sS]?://.`)),
	"scope":         newForm(parseScope, pattern(`^(credential|mtls|aws-access-key|none|jwt:.+|(header|cookie):[A-Za-z0-9_-]+)$`)),
	"field name":    newForm(parseFieldName, schema{"type": schemaText, "pattern": `^[A-Za-z0-9_-]+$`}),
	"enforced":      newForm(parseEnforced, schema{"type": schemaText, "pattern": `^([0-9.]+%|.*[^%])$`}),
	"word":          newForm(parseWord, pattern(`^[A-Za-z0-9_-]+$`)),
	"status":        newForm(parseStatus, schema{"type": schemaText, "pattern": `^[2-5](xx|[0-9][0-9])$`}),
	"pointer":       newForm(parsePointer, pattern(`^/`)),
	"method":        newForm(parseMethod, pattern(`^[A-Z]+$`)),
	"profile":       newForm(yamlfile.Filled, schema{"enum": profileNames()}), // check looks at it
	"in flight":     {schema: pattern(`^(reject|status|wait:.+)$`)},
}

func newForm[T any](parse func(string) (T, error), s schema) form {
	return form{func(text string) (any, error) { return parse(text) }, s}
}

func between(low, high int) form {
	return newForm(yamlfile.Between(low, high), schema{"type": "integer", "minimum": low, "maximum": high})
}

func profileNames() (names []string) {
	for _, p := range httpsafe.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

func parseSize(s string) (int64, error) {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(s, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n <= 0 || n > math.MaxInt32/unit.bytes {
			break
		}
		return n * unit.bytes, nil
	}
	return 0, yamlfile.Wrong(fmt.Sprintf("%q is no size", s), "write a number and a unit: 64KiB or 1MiB; 2GiB is too much")
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

// parseHTTP returns what checks the URL of a service that the proxy asks.
func parseHTTP(name, example string) func(string) (*url.URL, error) {
	return func(s string) (*url.URL, error) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return nil, yamlfile.Wrong(name+" must be an HTTP URL",
				"write http:// or https:// and a host, without user and fragment: "+example)
		}
		return u, nil
	}
}

func parsePublicURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no URL that clients could open", s), "write https://api.example.com")
	}
	return strings.TrimSuffix(s, "/"), nil
}

// IsFieldName reports whether a name is one of a header field, in the letters that are used for them.
func IsFieldName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func parseFieldName(s string) (string, error) {
	if !IsFieldName(s) {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no name of a header field", s), "write a name such as Idempotency-Key")
	}
	return s, nil
}

func parseWord(s string) (string, error) {
	if !IsFieldName(s) { // the same letters
		return "", yamlfile.Wrong(fmt.Sprintf("%q has other signs than letters, digits, - and _", s), "write v2, for example")
	}
	return s, nil
}

// parseStatus checks a status or a hundred of them. It refuses those that the middleware does not ask about.
func parseStatus(s string) (string, error) {
	switch {
	case !isStatus.MatchString(s):
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no status of a final answer", s), "write 402, or 4xx for all from 400 to 499")
	case s == "502" || s == "504":
		return "", yamlfile.Wrong(s+" comes from a gateway, and never says whether the operation ran", "see ambiguous:")
	}
	return s, nil
}

var isStatus = regexp.MustCompile(`^[2-5](xx|[0-9][0-9])$`)

func parsePointer(s string) (string, error) {
	if !strings.HasPrefix(s, "/") {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no JSON pointer", s),
			"it begins with a slash: /"+strings.ReplaceAll(s, ".", "/"))
	}
	return s, nil
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
	case kind == "cookie" && IsFieldName(rest):
		return s, nil
	case kind != "header" || !IsFieldName(rest):
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

var commonMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func parseMethod(s string) (string, error) {
	near := yamlfile.Nearest(s, commonMethods)
	switch {
	case s == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return "", yamlfile.Wrong("\""+s+"\" is no method", "methods are written in capitals: POST")
	case s == http.MethodConnect:
		return "", yamlfile.Wrong("the proxy refuses CONNECT requests", "leave it out")
	case httpkey.IsSafe(s):
		return "", yamlfile.Wrong(s+" needs no key: it has no effect to repeat", "leave it out")
	case near != "" && near != s:
		return "", yamlfile.Wrong("\""+s+"\" is no method", "did you mean "+near+"?")
	}
	return s, nil
}
