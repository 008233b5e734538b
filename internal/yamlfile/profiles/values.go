package profiles

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// forms are the ways to read values that only profiles have.
var forms = map[string]settings.Form{
	"base":        oneOf(append(Names(), noBase)),
	"class":       oneOf(httpsafe.ClassNames()),
	"method":      Method,
	"key length":  settings.Between(1, retrysafe.MaxKeyBytes),
	"retries":     settings.Between(1, 10),
	"header line": {Schema: settings.Pattern(`^[A-Za-z0-9_-]+: *[!-~]`)},
	"expression":  settings.NewForm(parseExpression, settings.Schema{"type": "string", "format": "regex"}),
	"media type":  settings.NewForm(parseMediaType, settings.Pattern(`^[^/ ]+/[^/ ]+`)),
}

// oneOf returns the form of one of some words.
func oneOf(words []string) settings.Form {
	return settings.NewForm(yamlfile.Choice(words...), settings.Schema{"enum": words})
}

// Names returns the names of the profiles of httpsafe.
func Names() (names []string) {
	for _, p := range httpsafe.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// keyForms are the forms of keys by their names in a file.
var keyForms = map[string]httpkey.Form{
	"string-or-bare": httpkey.StringOrBare, "string": httpkey.StringOnly, "bare": httpkey.Bare, "uuid": httpkey.UUID,
	"uuid4": httpkey.UUID4, "uuid7": httpkey.UUID7, "text": httpkey.Text,
}

// nameOf returns the name that has a value.
func nameOf[T comparable](names map[string]T, value T) string {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] == value {
			return name
		}
	}
	return ""
}

// headerLine is httpkey.HeaderLine, written as on the wire.
type headerLine httpkey.HeaderLine

// MarshalText implements encoding.TextMarshaler.
func (h headerLine) MarshalText() ([]byte, error) { return []byte(h.Name + ": " + h.Value), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *headerLine) UnmarshalText(text []byte) error {
	name, value, ok := strings.Cut(string(text), ":")
	if value = strings.TrimSpace(value); !ok || !settings.IsFieldName(name) || value == "" {
		return yamlfile.Wrong(fmt.Sprintf("%q is no header line", text), "write 'Repeatability-Result: accepted', in quotes")
	}
	*h = headerLine{name, value}
	return nil
}

// Method is the form of methods that can be guarded.
var Method = settings.NewForm(parseMethod, settings.Pattern(`^[A-Z]+$`))

// parseMethod refuses methods that are never guarded.
func parseMethod(s string) (string, error) {
	switch {
	case s == http.MethodConnect:
		return "", yamlfile.Wrong("the proxy refuses CONNECT requests", "leave it out")
	case s != "" && httpkey.IsSafe(s):
		return "", yamlfile.Wrong(s+" needs no key: it has no effect to repeat", "leave it out")
	}
	return settings.Method(s)
}

func parseExpression(s string) (string, error) {
	if _, err := regexp.Compile(s); err != nil {
		return "", yamlfile.Wrong(err.Error(), "write a regular expression as RE2 has them")
	}
	return s, nil
}

func parseMediaType(s string) (string, error) {
	if _, _, err := mime.ParseMediaType(s); err != nil || !strings.Contains(s, "/") {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no media type", s), "write one such as application/json")
	}
	return s, nil
}

// statusOf has statuses by the slugs of refusals.
type statusOf map[httpsafe.Slug]int

// ReadYAML implements settings.YAMLReader.
func (s *statusOf) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	known := map[string]yamlfile.Field{}
	*s = statusOf{}
	for _, slug := range httpsafe.Slugs() {
		known[string(slug)] = yamlfile.Scalar(new(int), func(text string) (int, error) {
			status, err := strconv.Atoi(text)
			if err != nil || status < 400 || status > 599 {
				return 0, yamlfile.Wrong(fmt.Sprintf("%q is no status of a refusal", text), "write one from 400 to 599")
			}
			(*s)[slug] = status
			return status, nil
		})
	}
	r.Mapping(n, "refusals.statuses", known)
}

// ShowYAML implements settings.YAMLShower.
func (s statusOf) ShowYAML(indent string) (text string) {
	for _, slug := range slices.Sorted(maps.Keys(s)) {
		text += fmt.Sprintf("\n%s  %s: %d", indent, slug, s[slug])
	}
	return text
}

// JSONSchema implements settings.Describer.
func (statusOf) JSONSchema() settings.Schema {
	return settings.Schema{
		"type": "object", "propertyNames": settings.Schema{"enum": httpsafe.Slugs()},
		"additionalProperties": settings.Schema{"type": "integer", "minimum": 400, "maximum": 599},
	}
}

// body is a JSON document, which a file has as YAML.
type body struct {
	text string
	at   yamlfile.Position
}

// ReadYAML implements settings.YAMLReader.
func (b *body) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	b.at = yamlfile.Place(n)
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
	default:
		r.Fault(n, "the body must be a mapping or a list", "write body: {error: '{detail}'}")
		return
	}
	if hasBareBraces(r, n) {
		return
	}
	var value any
	err := yaml.NodeToValue(n, &value, yaml.UseOrderedMap())
	text, unwritable := yaml.MarshalWithOptions(value, yaml.JSON())
	if err = cmp.Or(err, unwritable); err != nil {
		r.Fault(n, "the body is no JSON document: "+err.Error(), "")
		return
	}
	b.text = strings.TrimSpace(string(text))
}

// ShowYAML implements settings.YAMLShower: JSON is YAML, too. Without a body it returns nothing.
func (b body) ShowYAML(string) string {
	var text bytes.Buffer
	if json.Compact(&text, []byte(b.text)) != nil {
		return ""
	}
	return " " + text.String()
}

// hasBareBraces notes each {name} that is not in quotes, which YAML takes for a mapping.
func hasBareBraces(r *yamlfile.Reader, n ast.Node) (found bool) {
	for _, node := range ast.Filter(ast.MappingValueType, n) {
		if member := node.(*ast.MappingValueNode); member.Start.Value != ":" {
			found = true
			r.Fault(member.Key, "braces without quotes are a mapping in YAML",
				fmt.Sprintf("write '{%s}'", member.Key.GetToken().Value))
		}
	}
	return found
}

// JSONSchema implements settings.Describer.
func (body) JSONSchema() settings.Schema { return settings.Schema{"type": []string{"object", "array"}} }

// words have, for each name, the word for each case.
type words struct {
	of map[string]map[string]string
	at yamlfile.Position
}

// otherwise is how a file has the case of all others.
const otherwise = "default"

// ReadYAML implements settings.YAMLReader.
func (w *words) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	w.of, w.at = map[string]map[string]string{}, yamlfile.Place(n)
	for _, entry := range r.Entries(n, "refusals.words") {
		name, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		w.of[name] = map[string]string{}
		for _, one := range r.Entries(entry.Value, "refusals.words."+name) {
			of, ok := r.Text(one.Key)
			if hasBareBraces(r, one.Value) {
				continue
			}
			if word, all := r.Text(one.Value); ok && all {
				w.of[name][strings.TrimPrefix(of, otherwise)] = word
			}
		}
	}
}

// ShowYAML implements settings.YAMLShower.
func (w words) ShowYAML(indent string) (text string) {
	for _, name := range slices.Sorted(maps.Keys(w.of)) {
		text += fmt.Sprintf("\n%s  %s:", indent, quoted(name))
		of := maps.Clone(w.of[name])
		if word, ok := of[""]; ok {
			delete(of, "")
			of[otherwise] = word // in its place in the order of letters
		}
		for _, at := range slices.Sorted(maps.Keys(of)) {
			text += fmt.Sprintf("\n%s    %s: %s", indent, at, quoted(of[at]))
		}
	}
	return text
}

// quoted returns a text as JSON has it, which YAML reads, too.
func quoted(text string) string {
	raw, _ := json.Marshal(text) // a text can be encoded
	return string(raw)
}

// JSONSchema implements settings.Describer.
func (words) JSONSchema() settings.Schema {
	text := settings.Schema{"type": []string{"string", "integer"}}
	return settings.Schema{
		"type":                 "object",
		"additionalProperties": settings.Schema{"type": "object", "additionalProperties": text},
	}
}
