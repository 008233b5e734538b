package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// draft returns the draft of an operation's requests.
func (a *openAPI) draft(o operation) (*Draft, error) {
	a.steps = 0
	d := &Draft{Source: "operation " + o.name() + " of an OpenAPI document", Method: o.method}
	base := a.server(d, o)
	path, err := a.parameters(d, o)
	if err != nil {
		return nil, err
	}
	d.Path = printable(base + path)
	a.security(d, o)
	a.body(d, o)
	a.identity(d, o)
	if a.away != "" {
		d.notef("The document refers to %s, which was not read: put its parts into one document first, or see what "+
			"is missing here.", a.away)
	}
	d.complete()
	return d, nil
}

// server sets the target, and returns what all paths begin with.
func (a *openAPI) server(d *Draft, o operation) string {
	for _, of := range []map[string]any{o.self, o.item, a.root} {
		for _, s := range list(of["servers"]) {
			server := object(s)
			address := text(server["url"])
			for name, v := range object(server["variables"]) {
				address = strings.ReplaceAll(address, "{"+name+"}", text(object(v)["default"]))
			}
			u, err := url.Parse(address)
			if err != nil {
				continue
			}
			d.Target = u.Scheme + "://" + u.Host
			if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				d.Target = noTarget
				d.notef("The document does not say where the API is: write it as the target.")
			}
			return strings.TrimSuffix(u.EscapedPath(), "/")
		}
	}
	d.Target = noTarget
	d.notef("The document does not say where the API is: write it as the target.")
	return ""
}

// noTarget stands where a person must write something.
const noTarget = "http://127.0.0.1:8080"

// parameters fills in the path, and adds the required query parameters and headers.
func (a *openAPI) parameters(d *Draft, o operation) (string, error) {
	path, query := o.path, url.Values{}
	for _, p := range slices.Concat(list(o.item["parameters"]), list(o.self["parameters"])) {
		p := a.resolve(p)
		name, required := text(p["name"]), p["required"] == true
		sample := a.parameterSample(p, name)
		value := text(sample)
		switch text(p["in"]) {
		case "path":
			if !strings.Contains(path, "{"+name+"}") {
				continue
			}
			if saved, ok := a.prepare(d, o, name); ok {
				path = strings.ReplaceAll(path, "{"+name+"}", saved)
			} else {
				path = strings.ReplaceAll(path, "{"+name+"}", pathValue(value))
				d.notef("The path has a value for {%s}: see that it exists.", name)
			}
		case "query":
			switch {
			case isKeyName(name) && !d.hasKeyElsewhere():
				d.KeyQuery, d.KeyRequired = name, d.KeyRequired || required
			case required:
				query[name] = texts(sample)
			}
		case "header":
			d.headerParameter(name, value, required)
		}
	}
	if strings.ContainsAny(inBraces.ReplaceAllString(path, ""), "{}") {
		return "", fmt.Errorf("the path %s has a parameter that the document does not describe", o.path)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}

// inBraces are generators, and values that a step saves.
var inBraces = regexp.MustCompile(`\{\{[a-z_]+\}\}`)

// pathValue escapes a value except for its generators.
func pathValue(value string) string {
	if generated.MatchString(value) {
		return value
	}
	return url.PathEscape(value)
}

// headerParameter recognises a header that carries the key. It adds other headers if they are required.
func (d *Draft) headerParameter(name, value string, required bool) {
	if d.takeKey(name) {
		d.KeyRequired = d.KeyRequired || required && !strings.EqualFold(name, "Repeatability-First-Sent")
		return
	}
	if required {
		d.lines = append(d.lines, line{name, value})
	}
}

// security adds the line of the first scheme that a request needs.
func (a *openAPI) security(d *Draft, o operation) {
	needs, own := o.self["security"]
	if !own {
		needs = a.root["security"]
	}
	first := list(needs)
	if len(first) == 0 {
		return
	}
	schemes := object(object(a.root["components"])["securitySchemes"])
	for _, name := range slices.Sorted(maps.Keys(object(first[0]))) {
		d.addScheme(a.resolve(schemes[name]))
	}
}

// addScheme adds the credential that a security scheme describes.
func (d *Draft) addScheme(s map[string]any) {
	name, scheme := text(s["name"]), text(s["scheme"])
	switch text(s["type"]) {
	case "http":
		if scheme != "" {
			d.lines = append(d.lines, line{"Authorization", strings.ToUpper(scheme[:1]) + scheme[1:] + " secret"})
		}
	case "oauth2", "openIdConnect":
		d.lines = append(d.lines, line{"Authorization", "Bearer secret"})
	case "apiKey":
		if text(s["in"]) == "header" {
			d.addCredential(line{name, "secret"})
		} else {
			d.notef("The API takes its key %s in the %s: write it there.", name, text(s["in"]))
		}
	}
}

// body writes an example of the body that the operation accepts.
func (a *openAPI) body(d *Draft, o operation) {
	content := object(a.resolve(o.self["requestBody"])["content"])
	if len(content) == 0 {
		return
	}
	mediaType := preferred(content)
	value := a.mediaSample(object(content[mediaType]))
	d.lines = append(d.lines, line{"Content-Type", mediaType})
	a.keyProperty(d, object(content[mediaType])["schema"], mediaType)
	switch s, isText := value.(string); {
	case strings.HasPrefix(mediaType, "application/x-www-form-urlencoded"):
		form := url.Values{}
		for name, v := range object(value) {
			form[name] = texts(v)
		}
		d.Body = strings.NewReplacer("%7B%7B", "{{", "%7D%7D", "}}").Replace(form.Encode())
	case isText && !isJSONType(mediaType):
		d.Body = s
	case isJSONType(mediaType):
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if e.Encode(value) == nil {
			d.Body = strings.TrimSpace(b.String())
		}
	default:
		d.notef("The API takes %s: write a body of that form.", mediaType)
	}
}

// keyProperty looks in the schema of a body for a member that carries the key. Examples may leave it out.
func (a *openAPI) keyProperty(d *Draft, schema any, mediaType string) {
	form := strings.HasPrefix(mediaType, "application/x-www-form-urlencoded")
	if d.hasKeyElsewhere() || !form && !isJSONType(mediaType) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.properties(schema, 0))) {
		if isKeyName(name) {
			d.takeKeyMember("/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), form)
			d.KeyRequired = d.KeyRequired || slices.Contains(a.required(schema, 0), name)
			return
		}
	}
}

// isJSONType reports whether a media type is JSON, also one such as application/problem+json.
func isJSONType(t string) bool {
	t, _, _ = strings.Cut(t, ";")
	return t == "application/json" || strings.HasSuffix(t, "+json") || t == "*/*"
}

// preferred returns the media type to use of those that an operation accepts: JSON if possible.
func preferred(content map[string]any) string {
	all := slices.Sorted(maps.Keys(content))
	for _, is := range []func(string) bool{
		func(t string) bool { return t == "application/json" }, isJSONType,
		func(t string) bool { return strings.HasPrefix(t, "application/x-www-form-urlencoded") },
	} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
	}
	return all[0]
}

var pathParameter = regexp.MustCompile(`/\{[^}]*\}`)

// identity looks in the schema of the answer for what identifies the created thing.
func (a *openAPI) identity(d *Draft, o operation) {
	a.about = plain(path.Base(pathParameter.ReplaceAllString(o.path, "")) + o.id())
	responses := object(o.self["responses"])
	for _, status := range []string{"201", "200", "202", "2XX", "default"} {
		r := a.resolve(responses[status])
		if r == nil {
			continue
		}
		content := object(r["content"])
		if len(content) > 0 {
			d.IdentityPointer = a.identityIn(object(content[preferred(content)])["schema"], 0)
		}
		for name := range object(r["headers"]) {
			if d.IdentityPointer == "" && strings.EqualFold(name, "Location") {
				d.IdentityHeader = name
			}
		}
		return
	}
}

// identityIn looks in a schema, and then in the schemas inside it.
func (a *openAPI) identityIn(schema any, depth int) string {
	properties := a.properties(schema, 0)
	names := slices.Sorted(maps.Keys(properties))
	for _, is := range []func(string) bool{
		func(n string) bool { return n == "id" }, func(n string) bool { return plain(n) == "uuid" || plain(n) == "guid" },
		func(n string) bool { // payment_id of POST /payments, not customer_id
			stem, ok := strings.CutSuffix(plain(n), "id")
			return ok && stem != "" && strings.Contains(a.about, stem)
		},
		func(n string) bool {
			return strings.HasSuffix(n, "_id") || strings.HasSuffix(n, "Id") || n == "reference" || n == "number"
		},
	} {
		if i := slices.IndexFunc(names, is); i >= 0 {
			return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(names[i])
		}
	}
	for _, n := range names {
		if inner := n == "data" || n == "result"; inner && depth < 2 {
			if found := a.identityIn(properties[n], depth+1); found != "" {
				return "/" + n + found
			}
		}
	}
	return ""
}
