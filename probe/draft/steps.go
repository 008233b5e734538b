package draft

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// step is a request that creates what the path of another one names.
type step struct {
	*Draft
	saved map[string]string // names of values, each with a pointer into the answer
	keyed bool
}

// isKeyName reports a member or a parameter that is likely to carry the key.
func isKeyName(name string) bool {
	return slices.Contains([]string{
		"idempotencykey", "idempotentkey", "idempotencytoken", "idempotencyid", "idempotenceid", "idempotencekey",
		"xidempotencykey", "deduplicationkey", "deduplicationid", "dedupkey", "dedupekey", "dedupid", "clienttoken",
		"clientrequestid", "clientrequesttoken", "requestkey",
	}, plain(name))
}

// hasKeyElsewhere reports whether a header or the query carries the key.
func (d *Draft) hasKeyElsewhere() bool { return d.keyHeader || d.KeyQuery != "" }

// takeKeyMember notes that a member of the body carries the key. A profile that has the member by that name has it at
// the top of JSON.
func (d *Draft) takeKeyMember(pointer string, form bool) {
	switch {
	case pointer == "/idempotency_key" && !form:
		d.Profile = "square"
	case (pointer == "/ClientToken" || pointer == "/clientToken") && !form:
		d.Profile = "aws"
	default:
		d.KeyBody = pointer
	}
}

// takeKeyParameter removes a parameter that carries the key from the query. The probe sends the key itself.
func (d *Draft) takeKeyParameter() {
	before, query, ok := strings.Cut(d.Path, "?")
	if !ok {
		return
	}
	params := strings.Split(query, "&")
	params = slices.DeleteFunc(params, func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		name, err := url.QueryUnescape(name)
		isKey := err == nil && !d.hasKeyElsewhere() && isKeyName(name)
		if isKey {
			d.KeyQuery = name
		}
		return isKey
	})
	if d.Path = before; len(params) > 0 {
		d.Path += "?" + strings.Join(params, "&")
	}
}

// maxPrepared is how many parameters of paths are followed in one document: each may lead to several others.
const maxPrepared = 1000

// prepare has another operation create what a parameter of the path names, and returns the placeholder of the value
// that it saves. It reports false if the document does not say which operation does.
func (a *openAPI) prepare(d *Draft, o operation, name string) (placeholder string, ok bool) {
	by, pointer := a.linked(o, name)
	if pointer == "" {
		by, pointer = a.above(o, name)
	}
	if a.prepared++; pointer == "" || a.preparing[by.name()] || by.name() == o.name() || a.prepared > maxPrepared {
		return "", false
	}
	a.preparing[by.name()] = true
	defer delete(a.preparing, by.name())
	made, err := a.draft(by)
	if err != nil {
		return "", false
	}
	saved := savedName(by, name)
	for _, s := range append(made.Steps, step{made, map[string]string{saved: pointer}, made.hasKey()}) {
		d.addStep(s)
	}
	d.notef("%s is created by %s first: see that setup does what it should.", strings.TrimSuffix(saved, "_id"), by.name())
	return "{{" + saved + "}}", true
}

// addStep adds a step, or what it saves if it is there already: one request may give several values.
func (d *Draft) addStep(s step) {
	for _, there := range d.Steps {
		if there.Method == s.Method && there.Path == s.Path {
			maps.Copy(there.saved, s.saved)
			return
		}
	}
	d.Steps = append(d.Steps, s)
}

// hasKey reports whether the source says where the key of a request is.
func (d *Draft) hasKey() bool {
	return d.hasKeyElsewhere() || d.KeyBody != "" || d.Profile == "square" || d.Profile == "aws"
}

// savedName returns the name of a value: that of the parameter, and with what is created if that is just an id.
func savedName(by operation, parameter string) string {
	letters := func(text string) string {
		var b strings.Builder
		for _, c := range text {
			switch {
			case c >= 'A' && c <= 'Z':
				b.WriteString("_" + strings.ToLower(string(c)))
			case c >= 'a' && c <= 'z':
				b.WriteRune(c)
			case c == '-' || c == '_':
				b.WriteByte('_')
			}
		}
		return strings.Trim(b.String(), "_")
	}
	name := letters(parameter)
	if slices.Contains([]string{"", "id", "uuid", "seq", "amount", "time"}, name) {
		name = strings.Trim(strings.TrimSuffix(letters(path.Base(by.path)), "s")+"_id", "_")
	}
	return name
}

// above returns the operation that creates what stands before a parameter in the path, as POST /sessions does for
// /sessions/{id}/complete, and where its answer identifies that.
func (a *openAPI) above(o operation, name string) (by operation, pointer string) {
	before, _, _ := strings.Cut(o.path, "/{"+name+"}")
	item := a.resolve(object(a.root["paths"])[before])
	self := object(item["post"])
	if self == nil {
		return by, ""
	}
	by = operation{"POST", before, item, self}
	d := &Draft{}
	a.identity(d, by)
	return by, d.IdentityPointer
}

// linked returns the operation whose answer has a link to another one that takes the parameter from the body.
func (a *openAPI) linked(o operation, name string) (by operation, pointer string) {
	for _, by := range a.operations() {
		responses := object(by.self["responses"])
		for _, status := range slices.Sorted(maps.Keys(responses)) {
			links := object(a.resolve(responses[status])["links"])
			for _, key := range slices.Sorted(maps.Keys(links)) {
				link := a.resolve(links[key])
				value := text(object(link["parameters"])[name])
				if value == "" {
					value = text(object(link["parameters"])["path."+name])
				}
				pointer, inBody := strings.CutPrefix(value, "$response.body#/")
				if inBody && (o.id() != "" && text(link["operationId"]) == o.id() || o.isAt(text(link["operationRef"]))) {
					return by, "/" + pointer
				}
			}
		}
	}
	return by, ""
}

// isAt reports whether a reference leads to the operation.
func (o operation) isAt(reference string) bool {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(o.path)
	return strings.HasSuffix(reference, "#/paths/"+escaped+"/"+strings.ToLower(o.method))
}
