package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/probe/recipe"
)

// YAML returns the recipe, with comments that explain it. It returns an error if the recipe could not be read back: a
// body that YAML cannot carry must not be changed silently.
func (d *Draft) YAML() ([]byte, error) {
	if !utf8.ValidString(d.Body) {
		return nil, errors.New("the body is not text, and a recipe is: write the recipe by hand")
	}
	set := func(name string) (string, bool) { return "value of " + name, true }
	var err error
	for _, block := range []bool{true, false} {
		text := d.write(block)
		var f *recipe.File
		if f, err = recipe.Parse("the recipe", text, set); err == nil && d.isIn(f) {
			return text, nil
		}
	}
	if err == nil {
		err = errors.New("the body does not survive being written as YAML")
	}
	return nil, fmt.Errorf("this cannot be written as a recipe: %w", err)
}

// isIn reports whether a recipe that has been read back has the bodies of the draft.
func (d *Draft) isIn(f *recipe.File) bool {
	if len(d.Routes) == 0 {
		return f.Body() == d.Body
	}
	return slices.EqualFunc(d.Routes, f.Routes(), func(r *Draft, read recipe.Route) bool {
		return r.Body == read.Recipe.Request.Body
	})
}

// write writes the recipe. block says that bodies may stand on lines of their own.
func (d *Draft) write(block bool) []byte {
	w := &writer{}
	w.line("# A recipe for retrysafe probe, made from %s. Comments say what was guessed.", d.Source)
	w.line("")
	w.line("target: %s", quote(d.Target))
	own := "# "
	if d.OwnThis {
		own = ""
	}
	w.line("%si_own_this: true   # needed, with --allow-remote, for a target that is not on this machine", own)
	w.line("")
	if d.Call != "" {
		d.writeGRPC(w, block)
		return w.Bytes()
	}
	d.writeRules(w)
	if len(d.Routes) > 0 {
		d.writeRoutes(w, block)
	} else {
		d.writeSetup(w, block)
		d.writeRequest(w, block)
		d.writeIdentity(w)
	}
	d.writeCount(w)
	d.writeCredentials(w)
	if len(d.Routes) == 0 {
		d.writeMore(w)
	}
	return w.Bytes()
}

type writer struct{ bytes.Buffer }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// writeRules writes the profile and what the API requires.
func (d *Draft) writeRules(w *writer) {
	w.line("# The rules that the API has declared. ietf is the draft of the IETF for Idempotency-Key; others: " +
		"ietf-strict, stripe, paypal, adyen,")
	w.line("# repeatability, square, aws, checkout, gocardless; none checks only what must hold for every API.")
	w.line("profile: %s", cmp.Or(d.Profile, "ietf"))
	if d.KeyHeader != "" {
		w.line("key_header: %s", d.KeyHeader)
	}
	if d.KeyBody != "" {
		w.line("key_body: %s   # the member of the body that carries the key", quote(d.KeyBody))
	}
	if d.KeyQuery != "" {
		w.line("key_query: %s   # the parameter of the query that carries the key", quote(d.KeyQuery))
	}
	if d.KeyRequired {
		w.line("key_required: true   # a request without a key is refused")
	} else {
		w.line("# key_required: true   # if a request without a key is refused")
	}
	w.line("")
}

// writeRequest writes the request that creates something.
func (d *Draft) writeRequest(w *writer, block bool) {
	w.generators("sent")
	w.line("request:")
	d.writeFields(w, block)
	d.writeNotes(w)
}

// writeFields writes method, path, headers and body of a request.
func (d *Draft) writeFields(w *writer, block bool) {
	w.line("  method: %s", d.Method)
	w.line("  path: %s", quote(d.Path))
	if len(d.headers) > 0 {
		w.line("  headers:")
	}
	for _, group := range grouped(d.headers) {
		w.line("    %s: %s", quote(group.name), group.value)
	}
	w.body("body", d.Body, block)
}

// writeSetup writes the steps that create what the request needs.
func (d *Draft) writeSetup(w *writer, block bool) {
	if len(d.Steps) == 0 {
		return
	}
	w.line("# Is sent before each request that has a new key. What a step saves stands in the requests that follow.")
	w.line("setup:")
	for _, s := range d.Steps {
		inner := &writer{}
		s.writeFields(inner, block)
		if s.keyed && s.keyPlace() == d.keyPlace() {
			inner.line("  key: true   # it takes a key of its own")
		}
		var saved []string
		for _, name := range slices.Sorted(maps.Keys(s.saved)) {
			saved = append(saved, name+": "+quote(s.saved[name]))
		}
		inner.line("  save: {%s}", strings.Join(saved, ", "))
		w.nested("  - ", inner)
	}
	w.line("")
}

// keyPlace says where the key is.
func (d *Draft) keyPlace() string {
	return d.Profile + "|" + d.KeyHeader + "|" + d.KeyBody + "|" + d.KeyQuery
}

// writeRoutes writes a route for each request.
func (d *Draft) writeRoutes(w *writer, block bool) {
	w.line("# Each route is tested, with verdicts of its own.")
	for _, note := range d.left {
		w.line("# %s", strings.ReplaceAll(note, "\n", " "))
	}
	w.generators("sent")
	w.line("routes:")
	for _, r := range d.Routes {
		inner := &writer{}
		inner.line("name: %s", quote(r.routeName))
		r.writeSetup(inner, block)
		inner.line("request:")
		r.writeFields(inner, block)
		r.writeNotes(inner)
		inner.identityLine(r)
		text := strings.ReplaceAll(strings.TrimSuffix(inner.String(), "\n"), "\n", "\n    ")
		w.line("  - %s", strings.ReplaceAll(text, "\n    \n", "\n\n"))
	}
	w.line("")
}

// nested writes lines that are indented by two as the element of a list.
func (w *writer) nested(mark string, inner *writer) {
	text := strings.TrimPrefix(strings.TrimSuffix(inner.String(), "\n"), "  ")
	w.line("%s%s", mark, strings.ReplaceAll(text, "\n", "\n  "))
}

// generators says what a request may have.
func (w *writer) generators(done string) {
	w.line("# Creates one thing each time it is %s with a new key. The probe adds the key. Generators:", done)
	w.line(`#   {{amount}}  1 to 9999, different for each new request    {{seq}}   a number that no other request has`)
	w.line(`#   "{{uuid}}"  a random UUID                                "{{time}}"  the time`)
}

// body writes a request, in lines of its own if it may.
func (w *writer) body(name, body string, block bool) {
	switch {
	case body == "":
	case block && isBlock(body):
		chomp := "-"
		if strings.HasSuffix(body, "\n") {
			chomp = ""
		}
		w.line("  %s: |%s\n    %s", name, chomp, strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "\n", "\n    "))
	default:
		w.line("  %s: %s", name, quote(body))
	}
}

// writeNotes writes the notes as comments.
func (d *Draft) writeNotes(w *writer) {
	for _, n := range d.notes {
		w.line("  # %s", strings.ReplaceAll(n, "\n", " "))
	}
	w.line("")
}

// writeIdentity writes where an answer identifies what was created, and whether that was guessed.
func (d *Draft) writeIdentity(w *writer) {
	w.line("# What identifies the created thing in an answer: a JSON pointer into the body, or a header such as Location.")
	w.identityLine(d)
	w.line("")
}

// identityLine writes where the answers to a request identify what was created.
func (w *writer) identityLine(d *Draft) {
	switch {
	case d.IdentityHeader != "":
		w.line("identity: {header: %s}", quote(d.IdentityHeader))
	case d.IdentityPointer != "":
		w.line("identity: {pointer: %s}", quote(d.IdentityPointer))
	default:
		w.line("identity: {pointer: /id}   # guessed")
	}
}

// writeCount writes how effects are counted, or as comments how they could be.
func (d *Draft) writeCount(w *writer) {
	if d.CountPath != "" {
		w.line("# How effects are counted: the answer is a number, or a list whose elements are counted. sql and " +
			"webhook are other ways.")
		w.line("count:\n  get: {path: %s%s}\n", quote(d.CountPath), also(", pointer: ", d.CountPointer))
		return
	}
	w.line(`# Without a count, the probe has to believe the answers. Count effects in one of these ways:
# count:
#   get: {path: /payments, pointer: /total}           # a number, or a list that is counted
#   sql: {url: "${DATABASE_URL}", query: "select count(*) from payments"}   # PostgreSQL, or the path of a SQLite file
#   webhook: {port: 9099, delivery_id: /id}           # the API sends its events to http://127.0.0.1:9099
`)
}

// writeCredentials writes the callers, or as comments how they would be written.
func (d *Draft) writeCredentials(w *writer) {
	w.line("# Header lines of callers. Secrets come from the environment. With a second caller, the probe checks that " +
		"neither sees")
	w.line("# what belongs to the other.")
	if len(d.credentials) == 0 {
		w.line(`# credentials:
#   a: {Authorization: "Bearer ${PROBE_CREDENTIAL_A}"}
#   b: {Authorization: "Bearer ${PROBE_CREDENTIAL_B}"}
`)
		return
	}
	d.writeCallers(w)
}

// writeCallers writes the callers whose credentials are known.
func (d *Draft) writeCallers(w *writer) {
	w.line("credentials:")
	writeCaller(w, "a", d.credentials)
	if len(d.second) > 0 {
		writeCaller(w, "b", d.second)
	} else {
		b := d.credentials[0].ofAnother(0)
		w.line(`#  b: {%s: %s}`, quote(b.name), quote(b.value))
	}
	w.line("")
}

// writeCaller writes the header lines of a caller.
func writeCaller(w *writer, name string, lines []credential) {
	w.line("  %s:", name)
	for _, c := range lines {
		w.line("    %s: %s   # %s: %s", quote(c.name), quote(c.value), c.variable, c.what)
	}
}

// also returns a member that is written only if it has a value.
func also(name, value string) string {
	if value == "" {
		return ""
	}
	return name + quote(value)
}

// writeMore writes, as comments, what else a recipe can have.
func (d *Draft) writeMore(w *writer) {
	w.line("# Each of these lines makes more cases possible. What a variant leaves out is taken from the request.")
	d.writeVariants(w)
	w.line(`#   failing: {body: '{"amount": {{amount}}, "card": "declined"}'}   # is refused for a business reason
#   invalid: {body: '{"amount": '}                    # is refused because of its form
#   other: {path: /refunds}                           # creates something at another path
# hooks:
#   restart: [docker, restart, -t, "0", api]          # a program and its arguments, not run by a shell
# retention: 24h                                      # how long the API promises to replay
# lease: 30s                                          # how long a key stays in flight after a crash
# policy_url: https://docs.example.com/retries        # where it says so
# limits: {requests: 5000, rate: 500}                 # in all, and a second`)
}

// writeVariants writes those that are known, or how they would be written. What counts effects is a GET that shows
// them.
func (d *Draft) writeVariants(w *writer) {
	mark := "# "
	if d.SlowPath != "" || d.CountPath != "" {
		mark = ""
	}
	w.line("%svariants:", mark)
	w.variant("slow", d.SlowPath, "/payments/slow", "takes a second or more")
	w.variant("read", d.CountPath, "/payments", "a GET whose answer changes when the request is made")
}

// variant writes a line, as a comment if there is no path.
func (w *writer) variant(name, path, example, what string) {
	mark := "  "
	if path == "" {
		mark, path = "#   ", example
	}
	w.line("%-53s # %s", fmt.Sprintf("%s%s: {path: %s}", mark, name, quote(path)), what)
}

// grouped writes lines of one name as a list.
func grouped(lines []line) []line {
	var all []line
	values := map[string][]string{}
	for _, l := range lines {
		name := strings.ToLower(l.name)
		if values[name] == nil {
			all = append(all, l)
		}
		values[name] = append(values[name], quote(l.value))
	}
	for i, l := range all {
		v := values[strings.ToLower(l.name)]
		if all[i].value = v[0]; len(v) > 1 {
			all[i].value = "[" + strings.Join(v, ", ") + "]"
		}
	}
	return all
}

var bare = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._+=-]*$|^(https?|grpcs?)://[A-Za-z0-9/._:-]+$`)

// quote writes a scalar.
func quote(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if bare.MatchString(text) {
			return text
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // of a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// isBlock reports whether a text can stand in lines of its own as it is.
func isBlock(text string) bool {
	odd := func(c rune) bool {
		return c < ' ' && c != '\n' || c == 0x7f || c == utf8.RuneError || c == '\u0085' || c == '\u2028' || c == '\u2029'
	}
	return !strings.ContainsFunc(text, odd) && !strings.ContainsAny(text[:1], " \n") &&
		!strings.HasSuffix(text, "\n\n") && text != "\n"
}
