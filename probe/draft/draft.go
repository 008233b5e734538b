package draft

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Draft is a recipe to be.
type Draft struct {
	Source string // what it was made of, for people
	Target string
	Method string
	Path   string // with the query
	Body   string

	// Call is the full name of a gRPC method, whose request is Body; there is no Method and no Path then. "": the API
	// speaks HTTP.
	Call string
	// KeyField is the field of the request that carries the key by profile aip155. "": it has none.
	KeyField string
	// OwnThis says that the target may be tested although it is not on this machine.
	OwnThis bool

	Profile     string // "": nothing tells
	KeyHeader   string // "": the profile's
	KeyRequired bool
	// KeyBody is a JSON pointer to the member of the body that carries the key, KeyQuery the parameter of the query.
	KeyBody, KeyQuery string

	// Steps create what the request needs.
	Steps []step
	// Routes are the drafts of several requests, this one among them. Empty: the recipe has one request.
	Routes []*Draft

	// IdentityPointer or IdentityHeader is where an answer says what was created. Without either it is guessed.
	IdentityPointer, IdentityHeader string

	// CountPath is answered with a list of what has happened, or with its number, at CountPointer. "": nothing
	// counts. For gRPC it is a URL.
	CountPath, CountPointer string
	// SlowPath is where the same request takes a second or more. "": there is none. For gRPC it is a method.
	SlowPath string

	routeName   string
	left        []string // operations that have no route, and why
	keyHeader   bool     // a header carries the key
	headers     []line
	credentials []credential
	second      []credential // another caller's
	notes       []string
	shows       bool   // what looks like a secret: it is in the body
	lines       []line // of which headers and credentials are made
	call        protoreflect.MethodDescriptor
}

// credential is a header line whose value has a secret that the recipe does not.
type credential struct {
	line
	variable string
	what     string // the variable holds
	known    bool   // the source named the variable itself
}

// Variable is one that must be set before the recipe can be used, and what it holds.
type Variable struct{ Name, Holds string }

// Variables returns the environment variables that the recipe needs, and what to set them to.
func (d *Draft) Variables() []Variable {
	var all []Variable
	for _, c := range slices.Concat(d.credentials, d.second) {
		all = append(all, Variable{c.variable, c.what})
	}
	return all
}

// AddSecondCaller gives the recipe another caller, who shows credentials of the same kind. It reports false if the
// request has none. Metadata of a call says who the caller is, also if it is no secret.
func (d *Draft) AddSecondCaller() bool {
	if d.Call != "" && len(d.credentials) == 0 {
		for _, l := range d.headers {
			d.addCredential(l)
		}
		d.headers = nil
	}
	d.second = nil
	for i, c := range d.credentials {
		d.second = append(d.second, c.ofAnother(i))
	}
	return len(d.second) > 0
}

// ofAnother returns the same line for another caller. i counts the lines of a caller.
func (c credential) ofAnother(i int) credential {
	own := c.variable
	c.variable = "PROBE_CREDENTIAL_B"
	if i > 0 {
		c.variable += fmt.Sprintf("_%d", i+1)
	}
	c.value = strings.Replace(c.value, "${"+own+"}", "${"+c.variable+"}", 1)
	c.what = "the same of another caller"
	return c
}

// ShowsSecret reports whether the body has what looks like a secret. It is in the recipe, since the API takes it
// nowhere else.
func (d *Draft) ShowsSecret() bool { return d.shows }

// Notes returns what a person should check before the recipe is used.
func (d *Draft) Notes() []string {
	all := slices.Clone(d.left)
	if len(d.Routes) == 0 {
		return append(all, d.notes...)
	}
	for _, r := range d.Routes {
		for _, note := range r.notes {
			all = append(all, r.routeName+": "+note)
		}
	}
	return all
}

// notef adds a note.
func (d *Draft) notef(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// complete sorts the header lines, replaces secrets by variables, and puts generators into the body.
func (d *Draft) complete() {
	for _, l := range d.lines {
		switch {
		case d.takeKey(l.name):
		case isFraming(l.name):
			d.noteHost(l)
		case isSecret(l.name) || strings.HasSuffix(plain(l.name), "key"):
			d.addCredential(l)
		default:
			d.headers = append(d.headers, line{l.name, withVariables(l.value)})
		}
	}
	d.takeKeyParameter()
	d.hideInQuery()
	d.generate()
}

// takeKey reports whether a header carries the key, and chooses the profile by its name. The probe sends the key
// itself.
func (d *Draft) takeKey(name string) bool {
	switch strings.ToLower(name) {
	case "idempotency-key":
		d.Profile = "ietf"
	case "paypal-request-id":
		d.Profile = "paypal"
	case "cko-idempotency-key":
		d.Profile = "checkout"
	case "repeatability-request-id", "repeatability-first-sent":
		d.Profile = "repeatability"
	default:
		if !strings.Contains(strings.ToLower(name), "idempot") {
			return false
		}
		d.KeyHeader = name
	}
	d.keyHeader = true
	return true
}

// isFraming reports headers that the probe sends itself, and those of browsers that have no meaning here.
func isFraming(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "transfer-encoding", "connection", "expect", "te", "trailer", "upgrade",
		"keep-alive", "accept-encoding":
		return true
	}
	return false
}

// noteHost notes that a Host header of another name than the target's was left out.
func (d *Draft) noteHost(l line) {
	if strings.EqualFold(l.name, "Host") && "http://"+l.value != d.Target && "https://"+l.value != d.Target {
		d.notef("The Host header, %s, was left out: the probe sends that of the target. If the API needs it, let the "+
			"name lead there (/etc/hosts), and write it as the target.", l.value)
	}
}

// isSecret reports whether a header or parameter of that name is likely to carry a secret.
func isSecret(name string) bool {
	name = plain(name)
	for _, word := range []string{
		"authoriz", "authentic", "cookie", "apikey", "accesskey", "subscriptionkey", "token", "secret", "passw",
		"session", "signature", "credential", "jwt",
	} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return strings.HasSuffix(name, "auth") || name == "sig" || name == "key"
}

var shellVariable = regexp.MustCompile(`\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

// withVariables writes the shell's $NAME as recipes write it: ${NAME}.
func withVariables(value string) string { return shellVariable.ReplaceAllString(value, "$${$1$2}") }

// addCredential replaces a secret by a variable. A scheme before it, such as Bearer, stays.
func (d *Draft) addCredential(l line) {
	scheme, secret, ok := strings.Cut(l.value, " ")
	if !ok || !strings.EqualFold(l.name, "Authorization") || scheme == "" {
		scheme, secret = "", l.value
	}
	c := credential{line: l, what: "the value of " + l.name}
	if scheme != "" {
		c.what = "what follows " + scheme + " in " + l.name
		scheme += " "
	}
	if strings.EqualFold(scheme, "Basic ") {
		c.what = "USER:PASSWORD in base64, which is what follows Basic in " + l.name
	}
	if m := shellVariable.FindStringSubmatch(secret); m != nil && m[0] == secret {
		c.variable, c.known = m[1]+m[2], true
	} else {
		c.variable = "PROBE_CREDENTIAL_A"
		if n := len(d.credentials); n > 0 {
			c.variable += fmt.Sprintf("_%d", n+1)
		}
	}
	c.value = scheme + "${" + c.variable + "}"
	d.credentials = append(d.credentials, c)
}

// hideInQuery removes parameters from the query that look like secrets.
func (d *Draft) hideInQuery() {
	path, query, ok := strings.Cut(d.Path, "?")
	if !ok {
		return
	}
	params := strings.Split(query, "&")
	for i, p := range params {
		if name, value, _ := strings.Cut(p, "="); value != "" && isSecret(name) {
			params[i] = name + "=CHANGE-ME"
			d.notef("The query has %s, which looks like a secret: it was left out. Recipes and reports show the "+
				"whole path; send it in a header if the API takes it there.", name)
		}
	}
	d.Path = path + "?" + strings.Join(params, "&")
}

// plain returns a name in lower case, without what separates its words.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
}
