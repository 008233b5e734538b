package grpcprobe

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// Recipe is what the probe has to know of a gRPC service. Target, Call and Identity are needed; each of the others
// makes more cases possible.
type Recipe struct {
	// Target is where the server is: host:port.
	Target string
	// TLS says how to speak it to the target; nil: in the clear.
	TLS *tls.Config
	// Profile is the name of the rules that the service has declared: see Profiles. Default "ietf".
	Profile string
	// Key carries the key. Default: that of the profile.
	Key Key

	// Call creates something each time it is made with a new key.
	Call Call
	// Identity is a JSON pointer into the response, in its JSON form, to what tells one created thing from another:
	// /orderId.
	Identity string
	// Count counts effects from outside, which is better evidence than identities. May be nil.
	Count probe.Counter

	// A is the metadata that makes a call one of the ordinary caller's, B another caller's. Empty: none.
	A, B []wire.HeaderLine

	// Variants of the call; nil where there is none. One without a method has that of Call, one without a request its
	// request.
	Slow    *Call // takes a second or more
	Failing *Call // is refused for a business reason
	Broken  *Call // ends with an error of the server's

	// Limits of a run.
	Limits probe.Limits
}

// Call is a call of a unary method.
type Call struct {
	// Method is its full name: shop.v1.Payments/CreatePayment.
	Method string
	// Metadata goes with it.
	Metadata []wire.HeaderLine
	// Request is the request in JSON, with the generators of probe.Template.
	Request string
}

// Key says what carries the key: at most one of the two is set.
type Key struct {
	Metadata string // the name of a metadata entry
	Field    string // the name of a string field of the request
}

// check returns an error for the first mistake in the recipe.
func (r *Recipe) check() error {
	host, port, err := net.SplitHostPort(r.Target)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case r.Target == "":
		return errors.New("recipe: target is missing: write the address of the server")
	case err != nil || host == "":
		return fmt.Errorf("recipe: target %q: write host:port", r.Target)
	case r.Call.Method == "":
		return errors.New("recipe: method is missing: write a method such as shop.v1.Payments/CreatePayment")
	case r.Identity == "":
		return errors.New("recipe: identity is missing: write where a response identifies what was created")
	case !strings.HasPrefix(r.Identity, "/"):
		return fmt.Errorf("recipe: identity %q is not a JSON pointer: a pointer begins with a slash", r.Identity)
	case r.Key.Metadata != "" && r.Key.Field != "":
		return errors.New("recipe: the key is in the metadata or in a field, not in both")
	case strings.HasSuffix(strings.ToLower(r.Key.Metadata), "-bin"):
		return fmt.Errorf("recipe: %s would carry bytes, but a key is text: choose a name without -bin", r.Key.Metadata)
	}
	return nil
}

// rules returns the rules of the profile, with the key where the recipe has it.
func (r *Recipe) rules() (rules, error) {
	all, err := rulesOf(r.Profile)
	switch {
	case r.Key.Metadata != "":
		all.header, all.field = strings.ToLower(r.Key.Metadata), ""
	case r.Key.Field != "":
		all.header, all.field = "", r.Key.Field
	}
	return all, err
}

// calls returns the calls of the recipe, by name: "call" and the names of the variants. What a variant leaves out is
// taken from the recipe's call.
func (r *Recipe) calls() map[string]probe.Template {
	all := map[string]probe.Template{"call": r.Call.template(Call{})}
	for name, c := range map[string]*Call{"slow": r.Slow, "failing": r.Failing, "broken": r.Broken} {
		if c != nil {
			all[name] = c.template(r.Call)
		}
	}
	return all
}

// target returns the server's address for reports.
func (r *Recipe) target() string {
	scheme := "grpc"
	if r.TLS != nil {
		scheme = "grpcs"
	}
	return (&url.URL{Scheme: scheme, Host: r.Target}).Redacted()
}

// template returns the call with its generators. What it leaves out is taken from rest.
func (c Call) template(rest Call) probe.Template {
	if c.Metadata == nil {
		c.Metadata = rest.Metadata
	}
	return probe.Template{
		Path: "/" + strings.TrimPrefix(cmp.Or(c.Method, rest.Method), "/"), Header: c.Metadata,
		Body: cmp.Or(c.Request, rest.Request, "{}"),
	}
}
