package recipe

import (
	"cmp"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// request is a request as the file has it: what it leaves out is not filled in yet.
type request struct {
	at      ast.Node // nil: it is not in the file
	method  string
	path    string
	headers []wire.HeaderLine
	body    string
	bodyAt  ast.Node // nil: it has none of its own
	badPath bool     // there is one, and it has been refused
}

// read returns the field of a request. what names the request in errors.
func (q *request) read(env environment, what string) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		q.at = n
		r.Mapping(n, what, q.fields(env, what))
	}
}

// fields returns the fields of a request.
func (q *request) fields(env environment, what string) map[string]yamlfile.Field {
	return map[string]yamlfile.Field{
		"method": yamlfile.Scalar(&q.method, method),
		"path": func(r *yamlfile.Reader, n ast.Node) {
			yamlfile.Scalar(&q.path, env.path)(r, n)
			q.badPath = q.path == ""
		},
		"headers":  headers(&q.headers, env, what+".headers"),
		"body":     q.readBody(env),
		"metadata": forGRPC("metadata", "write headers: {NAME: value}"),
		"request":  forGRPC("request", "write body: '…'"),
	}
}

// readBody reads a body. A mapping instead of a text is a common mistake, so its error shows both ways to write a text.
func (q *request) readBody(env environment) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		if isText(r, n, "the body must be a text, which is sent as it is", "body") {
			q.bodyAt = n
			yamlfile.Scalar(&q.body, env.templated)(r, n)
		}
	}
}

// isText notes a mapping: it is what people write who expect the probe to make JSON of it.
func isText(r *yamlfile.Reader, n ast.Node, what, field string) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		r.Fault(n, what, "put it behind "+field+`: | on lines of its own, or into quotes: '{"amount": {{amount}}}'`)
		return false
	}
	return true
}

// checkBody finds JSON that is none.
func (q *request) checkBody(r *yamlfile.Reader, what string) {
	if q.bodyAt == nil || isJSON(q.body) || !q.saysJSON() {
		return
	}
	r.Fault(q.bodyAt, what+".body is not JSON, although its Content-Type says so", jsonAdvice(q.body))
}

// jsonAdvice says what to look at in a template that is not JSON.
func jsonAdvice(text string) string {
	instead := "check its commas and quotes"
	if generator.MatchString(text) {
		instead += `; {{uuid}} and {{time}} stand in quotes: "{{uuid}}", {{amount}} and {{seq}} may stand alone`
	}
	return instead
}

// saysJSON reports whether the request has a Content-Type of JSON.
func (q *request) saysJSON() bool {
	t := q.mediaType()
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// isForm reports whether the request has a Content-Type of forms.
func (q *request) isForm() bool { return q.mediaType() == "application/x-www-form-urlencoded" }

// mediaType returns what the Content-Type of the request says, without parameters.
func (q *request) mediaType() string {
	for _, h := range q.headers {
		if strings.EqualFold(h.Name, "Content-Type") {
			t, _, _ := mime.ParseMediaType(h.Value)
			return t
		}
	}
	return ""
}

// checkKey finds a key that would be the same in all requests.
func (q *request) checkKey(r *yamlfile.Reader, recipe probe.Recipe) {
	if recipe = recipe.WithKeyPlace(); recipe.KeyBody != "" || recipe.KeyQuery != "" {
		q.checkOtherKey(r, recipe)
		return
	}
	header := cmp.Or(recipe.KeyHeader, recipe.Declared().Header)
	if q.at == nil || header == "" {
		return
	}
	if slices.ContainsFunc(q.headers, func(h wire.HeaderLine) bool { return strings.EqualFold(h.Name, header) }) {
		r.Fault(q.at, "the probe sends "+header+" itself, because that is what it tests", "leave the line out of the headers")
	}
}

// checkOtherKey finds a key in the body or the query that would be the same in all requests, and a body that no key can
// be put into. A request without a body has its own: see keyOnPutAndDelete in package cases.
func (q *request) checkOtherKey(r *yamlfile.Reader, recipe probe.Recipe) {
	if q.at == nil {
		return
	}
	path, query, _ := strings.Cut(filled(q.path), "?")
	in, _ := url.ParseQuery(query)
	name := recipe.KeyQuery
	if recipe.KeyBody != "" {
		body := filled(q.body)
		isObject := strings.HasPrefix(strings.TrimSpace(body), "{")
		if q.body != "" && !isObject && !q.isForm() || q.isForm() && strings.Count(recipe.KeyBody, "/") > 1 {
			r.Fault(cmp.Or(q.bodyAt, q.at), "the body of "+path+" has no place for a key at "+recipe.KeyBody,
				"key_body needs a JSON object, or a form and a pointer to one field, such as /idempotency_key")
			return
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(recipe.KeyBody[1:])
		if in, _ = url.ParseQuery(body); !q.isForm() {
			text, err := wire.AtPointer([]byte(body), recipe.KeyBody)
			in = url.Values{}
			if err == nil && text != "" {
				in[name] = []string{text}
			}
		}
	}
	if in.Has(name) {
		r.Fault(q.at, "the probe sends "+name+" itself, because that is what it tests", "leave it out of the request")
	}
}

// template returns the request in the form that cases fill in.
func (q *request) template() probe.Template {
	return probe.Template{Method: cmp.Or(q.method, "POST"), Path: q.path, Header: q.headers, Body: q.body}
}

// variant says what a variant has in the place of what it leaves out.
type variant struct {
	method   string // "": the request's
	ownPath  bool   // it must have a path of its own
	bodyless bool   // it has no body unless it says so
	set      func(v *probe.Variants, t *probe.Template)
}

// variants returns the variants that a recipe can have, by name.
func variants() map[string]variant {
	return map[string]variant{
		"slow":    {set: func(v *probe.Variants, t *probe.Template) { v.Slow = t }},
		"failing": {set: func(v *probe.Variants, t *probe.Template) { v.Failing = t }},
		"invalid": {set: func(v *probe.Variants, t *probe.Template) { v.Invalid = t }},
		"broken":  {set: func(v *probe.Variants, t *probe.Template) { v.Broken = t }},
		"other":   {ownPath: true, set: func(v *probe.Variants, t *probe.Template) { v.Other = t }},
		"read": {
			method: "GET", ownPath: true, bodyless: true,
			set: func(v *probe.Variants, t *probe.Template) { v.Read = t },
		},
		"put": {method: "PUT", ownPath: true, set: func(v *probe.Variants, t *probe.Template) { v.Put = t }},
		"delete": {
			method: "DELETE", ownPath: true, bodyless: true,
			set: func(v *probe.Variants, t *probe.Template) { v.Delete = t },
		},
		"patch":       {method: "PATCH", ownPath: true, set: func(v *probe.Variants, t *probe.Template) { v.Patch = t }},
		"cookie":      {set: func(v *probe.Variants, t *probe.Template) { v.Cookie = t }},
		"large":       {set: func(v *probe.Variants, t *probe.Template) { v.Large = t }},
		"async":       {set: func(v *probe.Variants, t *probe.Template) { v.Async = t }},
		"redirect":    {set: func(v *probe.Variants, t *probe.Template) { v.Redirect = t }},
		"informed":    {set: func(v *probe.Variants, t *probe.Template) { v.Informed = t }},
		"rate_limit":  {set: func(v *probe.Variants, t *probe.Template) { v.RateLimit = t }},
		"see_other":   {set: func(v *probe.Variants, t *probe.Template) { v.SeeOther = t }},
		"unanswered":  {set: func(v *probe.Variants, t *probe.Template) { v.Unanswered = t }},
		"cut_off":     {set: func(v *probe.Variants, t *probe.Template) { v.CutOff = t }},
		"late":        {set: func(v *probe.Variants, t *probe.Template) { v.Late = t }},
		"unavailable": {set: func(v *probe.Variants, t *probe.Template) { v.Unavailable = t }},
		"unreached":   {set: func(v *probe.Variants, t *probe.Template) { v.Unreached = t }},
		"busy":        {set: func(v *probe.Variants, t *probe.Template) { v.Busy = t }},
		"unkeyed":     {ownPath: true, set: func(v *probe.Variants, t *probe.Template) { v.Unkeyed = t }},
	}
}

// readVariants reads the variants. What one leaves out is taken from the request.
func (p *parser) readVariants(r *yamlfile.Reader, n ast.Node) {
	known := map[string]yamlfile.Field{}
	for name := range variants() {
		known[name] = func(r *yamlfile.Reader, n ast.Node) {
			p.variants[name] = new(request)
			p.variants[name].read(p.env, "variants."+name)(r, n)
		}
	}
	r.Mapping(n, "variants", known)
}

// finishVariants gives each variant what it has left out.
func (p *parser) finishVariants(r *yamlfile.Reader) {
	all := variants()
	for name, q := range p.variants {
		rules := all[name]
		if rules.ownPath && q.path == "" && !q.badPath {
			r.Fault(q.at, "variants."+name+" needs a path of its own", "write path: /…")
		}
		q.headers = inherited(p.request.headers, q.headers)
		if name != "invalid" {
			q.checkBody(r, "variants."+name)
		}
		q.checkKey(r, p.file.Recipe)
		q.method = cmp.Or(q.method, rules.method, p.request.method)
		q.path = cmp.Or(q.path, p.request.path)
		if q.bodyAt == nil && !rules.bodyless {
			q.body = p.request.body
		}
		t := q.template()
		if saved := (probe.Template{Setup: p.setup}); q.path == p.request.path || mentionsSaved(saved, t) {
			t.Setup = p.setup
		}
		checkPlaceholders(r, q.at, t)
		rules.set(&p.file.Recipe.Variants, &t)
	}
}

// mentionsSaved reports whether a request has a value that the steps of another template save.
func mentionsSaved(of, t probe.Template) bool {
	text := t.Path + "\n" + t.Body
	for _, h := range t.Header {
		text += "\n" + h.Value
	}
	return of.MentionsSaved(text)
}

// inherited returns the header lines of the request without those that the variant has itself.
func inherited(of, own []wire.HeaderLine) []wire.HeaderLine {
	rest := slices.DeleteFunc(slices.Clone(of), func(h wire.HeaderLine) bool {
		return slices.ContainsFunc(own, func(o wire.HeaderLine) bool { return strings.EqualFold(o.Name, h.Name) })
	})
	return append(rest, own...)
}
