package recipe

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// environment is where values of the form ${NAME} come from.
type environment struct {
	lookup func(name string) (string, bool)
	saved  []string // names of values that steps of a set-up save
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand puts the variables into a text. Its error shows no value.
func (e environment) expand(s string) (string, error) {
	var missing string
	s = variable.ReplaceAllStringFunc(s, func(found string) string {
		name := found[2 : len(found)-1]
		v, ok := e.lookup(name)
		if (!ok || v == "") && missing == "" {
			missing = name
		}
		return v
	})
	if missing != "" {
		return "", yamlfile.Wrong("the environment has no "+missing, "set it first: export "+missing+"='…'")
	}
	return s, nil
}

// expanded parses what the variables have been put into.
func expanded[T any](e environment, parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		s, err := e.expand(s)
		if err != nil {
			var none T
			return none, err
		}
		return parse(s)
	}
}

const tokens = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"

// fieldName accepts the name of a header (RFC 9110 §5.1).
func fieldName(s string) (string, error) {
	if s == "" || strings.Trim(s, tokens) != "" {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not the name of a header", s), "write a name such as Idempotency-Key")
	}
	return s, nil
}

// hostName accepts a host with an optional port, as a Host header has it.
func hostName(s string) (string, error) {
	u, err := url.Parse("http://" + s)
	if err != nil || s == "" || u.Host != s {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not a host", s), "write tenant-b.example.test, with :port if it has one")
	}
	return s, nil
}

// fieldValue accepts a value that fits into one header line. Its error does not show the value, which may be a secret.
func fieldValue(s string) (string, error) {
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return "", yamlfile.Wrong("the value has a line break or another control character", "write it in one line")
	}
	return strings.TrimSpace(s), nil
}

// headers reads header lines.
func headers(to *[]wire.HeaderLine, env environment, what string) yamlfile.Field {
	return pairs(to, what, headerName, lineOf(env, fieldValue))
}

// pairs reads a name and a value, or a list of values for a line each.
func pairs(to *[]wire.HeaderLine, what string, nameOf, valueOf func(string) (string, error)) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		for _, entry := range r.Entries(n, what) {
			var name string
			yamlfile.Scalar(&name, nameOf)(r, entry.Key)
			if name == "" {
				continue
			}
			var values []string
			read := yamlfile.List(&values, valueOf)
			if _, list := entry.Value.(*ast.SequenceNode); !list {
				values = []string{""}
				read = yamlfile.Scalar(&values[0], valueOf)
			}
			read(r, entry.Value)
			for _, v := range values {
				*to = append(*to, wire.HeaderLine{Name: name, Value: v})
			}
		}
	}
}

// lineOf checks the generators before the variables are put in: a password may look like one.
func lineOf(env environment, parse func(string) (string, error)) func(string) (string, error) {
	value := expanded(env, parse)
	return func(s string) (string, error) {
		if _, err := env.templated(s); err != nil {
			return "", err
		}
		return value(s)
	}
}

// headerName accepts the headers that a recipe may set. The probe sets Host and the framing itself.
func headerName(s string) (string, error) {
	if why := framing(s); why != "" {
		return "", yamlfile.Wrong(why, "leave the line out")
	}
	return fieldName(s)
}

// framing says why a header cannot be given.
func framing(name string) string {
	switch strings.ToLower(name) {
	case "host":
		return "the probe sends Host itself, from the target"
	case "content-length", "transfer-encoding", "connection", "expect", "te", "trailer", "upgrade", "keep-alive":
		return "the probe frames requests itself, and " + name + " is a part of that"
	}
	return ""
}

var generator = regexp.MustCompile(`\{\{\s*([A-Za-z_]+)\s*\}\}`)

// templated accepts a text whose placeholders are all generators or saved values.
func (e environment) templated(s string) (string, error) {
	known := slices.Concat(probe.Generators(), e.saved)
	for _, m := range generator.FindAllStringSubmatch(s, -1) {
		if slices.Contains(known, m[1]) {
			continue
		}
		instead := "there are {{" + strings.Join(known, "}}, {{") + "}}"
		if near := yamlfile.Nearest(m[1], known); near != "" {
			instead = "did you mean {{" + near + "}}?"
		}
		return "", yamlfile.Wrong("{{"+m[1]+"}} is not a generator", instead)
	}
	return s, nil
}

// filled puts samples in the places of a template, such that JSON stays JSON only if the places are where they belong.
func filled(s string) string {
	return generator.ReplaceAllStringFunc(s, func(found string) string {
		switch generator.FindStringSubmatch(found)[1] {
		case "uuid", "time":
			return "x"
		}
		return "1" // a saved value may be a number
	})
}

// path accepts a path that a request line can have.
func (e environment) path(s string) (string, error) {
	if !strings.HasPrefix(s, "/") {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not a path", s), "write a path that begins with a slash and "+
			"follows the target, such as /payments")
	}
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }
	if strings.ContainsFunc(filled(s), bad) {
		return "", yamlfile.Wrong(fmt.Sprintf("%q has a character that cannot stand in a path", s), "write it in percent encoding, as in %20")
	}
	return e.templated(s)
}

// method accepts a method in capitals.
func method(s string) (string, error) {
	if s == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not a method", s), "write the method in capitals, such as POST")
	}
	return s, nil
}

// parameterName accepts the name of a query parameter.
func parameterName(s string) (string, error) {
	if s == "" || strings.Trim(s, tokens+"[]") != "" {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not the name of a query parameter", s), "write a name such as idempotency_key")
	}
	return s, nil
}

// pointer accepts a JSON pointer.
func pointer(s string) (string, error) {
	if !strings.HasPrefix(s, "/") {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not a JSON pointer", s), "it begins with a slash: /"+strings.ReplaceAll(s, ".", "/"))
	}
	return s, nil
}

// webURL accepts a URL that clients can open.
func webURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not a URL that clients can open", s), "write https://docs.example.com/retries")
	}
	return s, nil
}

// rate accepts a number of requests per second.
func rate(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || v > 1e6 {
		return 0, yamlfile.Wrong(fmt.Sprintf("%q is not a rate", s), "write a number of requests per second, such "+
			"as 50")
	}
	return v, nil
}

// isJSON reports whether a template is JSON once it is filled in.
func isJSON(body string) bool { return json.Valid([]byte(filled(body))) }
