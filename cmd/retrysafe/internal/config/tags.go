package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Tags say where the value of each tag is in a request, by the tag's name.
type Tags map[string]httpsafe.TagPlace

// ReadYAML implements settings.YAMLReader.
func (all *Tags) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	*all = Tags{}
	for _, entry := range r.Entries(n, "tags") {
		name, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		if _, err := retrysafe.NewTags(map[string]string{name: "value"}); err != nil {
			r.Fault(entry.Key, strconv.Quote(name)+" is no name of a tag", fmt.Sprintf("write 1 to %d letters, digits, -, _ or .",
				retrysafe.MaxTagNameBytes))
			continue
		}
		text, ok := r.Text(entry.Value)
		if !ok {
			continue
		}
		var place httpsafe.TagPlace
		if err := place.UnmarshalText([]byte(text)); err != nil {
			r.Fault(entry.Value, strconv.Quote(text)+" is no place for a tag", "write a JSON pointer such as /order/id, header:NAME, "+
				"path:NAME or query:NAME")
			continue
		}
		(*all)[name] = place
	}
	if len(*all) > retrysafe.MaxTags {
		r.Fault(n, fmt.Sprintf("%d tags are too many", len(*all)), fmt.Sprintf("keep those that people look for: at most %d",
			retrysafe.MaxTags))
	}
}

// ShowYAML implements settings.YAMLShower.
func (all Tags) ShowYAML(indent string) (text string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += "\n" + indent + "  " + strconv.Quote(name) + ": " + strconv.Quote(all[name].String())
	}
	return text
}

// JSONSchema implements settings.Describer.
func (Tags) JSONSchema() settings.Schema {
	return settings.Schema{
		"type": "object", "maxProperties": retrysafe.MaxTags,
		"propertyNames":        settings.Pattern(fmt.Sprintf(`^[A-Za-z0-9._-]{1,%d}$`, retrysafe.MaxTagNameBytes)),
		"additionalProperties": settings.Pattern(`^(/|(header|path|query):.)`),
	}
}

// checkTags finds path values that the pattern does not have.
func (t Route) checkTags(r *yamlfile.Reader, pattern string) {
	for _, place := range t.Tags.Value {
		if place.PathValue != "" && pattern != "" && !slices.Contains(wildcards(pattern), place.PathValue) {
			r.FaultAt(t.Tags.At, fmt.Sprintf("the pattern %q has no {%s}", pattern, place.PathValue), "")
		}
	}
}
