package recipe

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

const grpcTargets = "grpc://127.0.0.1:50051, or grpcs:// for TLS"

// isGRPC reports a target that speaks gRPC.
func isGRPC(target string) bool {
	return strings.HasPrefix(target, "grpc://") || strings.HasPrefix(target, "grpcs://")
}

// ParseGRPCTarget checks where a gRPC server is said to be.
func ParseGRPCTarget(s string) (*url.URL, error) {
	const instead = "write " + grpcTargets
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "grpc" && u.Scheme != "grpcs" || u.Hostname() == "":
		return nil, yamlfile.Wrong("the target is not the address of a gRPC server", instead)
	case u.User != nil:
		return nil, yamlfile.Wrong("the target contains a user or a password",
			"write a line under credentials.a: authorization: Basic ${NAME}")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, " \r\n\t"):
		return nil, yamlfile.Wrong("the target may have only a scheme, a host and a port", instead)
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
		return nil, yamlfile.Wrong("the target has no port", instead)
	}
	u.Path = ""
	return u, nil
}

var fullMethod = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*/[A-Za-z_][A-Za-z0-9_]*$`)

// methodName accepts the full name of a method, as in shop.v1.Payments/CreatePayment.
func methodName(s string) (string, error) {
	if !fullMethod.MatchString(s) {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not the full name of a method", s),
			"write package, service and method, as in shop.v1.Payments/CreatePayment")
	}
	return s, nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// requestField accepts the name of a field.
func requestField(s string) (string, error) {
	if !identifier.MatchString(s) {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not the name of a field", s),
			"write the name of a string field of the request, such as request_id")
	}
	return s, nil
}

// metadata reads metadata: a name and a value, or a list of values.
func metadata(to *[]wire.HeaderLine, env environment, what string) yamlfile.Field {
	return pairs(to, what, metadataName, lineOf(env, metadataValue))
}

// ParseMetadata reads a line of metadata such as "authorization: Bearer ${TOKEN}": as it is written, and with the
// variables of the environment. Its error shows nothing of the value.
func ParseMetadata(s string, lookup func(name string) (string, bool)) (written, expanded wire.HeaderLine, err error) {
	name, value, ok := strings.Cut(s, ":")
	if !ok {
		return written, expanded, yamlfile.Wrong("the value has no colon",
			"write a name and a value, as in 'authorization: Bearer me'")
	}
	if name, err = metadataName(strings.TrimSpace(name)); err != nil {
		return written, expanded, err
	}
	filled, err := lineOf(environment{lookup: lookup}, metadataValue)(strings.TrimSpace(value))
	return wire.HeaderLine{Name: name, Value: strings.TrimSpace(value)}, wire.HeaderLine{Name: name, Value: filled}, err
}

// metadataName accepts the names that metadata in a recipe may have. gRPC writes them in lower case.
func metadataName(s string) (string, error) {
	name := strings.ToLower(s)
	switch {
	case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
		return "", yamlfile.Wrong(fmt.Sprintf("%q is not a name that metadata can have", s),
			"write letters, digits and dashes, as in idempotency-key")
	case strings.HasSuffix(name, "-bin"):
		return "", yamlfile.Wrong(name+" would carry bytes, but a recipe can only contain text", "leave the line out")
	case strings.HasPrefix(name, "grpc-"), name == "content-type", name == "user-agent", framing(name) != "":
		return "", yamlfile.Wrong(name+" belongs to gRPC itself", "leave the line out")
	}
	return name, nil
}

// metadataValue accepts a value of metadata. Its error does not show the value, which may be a secret.
func metadataValue(s string) (string, error) {
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", yamlfile.Wrong("the value has a line break or another character that metadata cannot have",
			"write it in one line, in ASCII")
	}
	return strings.TrimSpace(s), nil
}
