package config

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Links are those of the dashboard, in the order of the file.
type Links []dashboard.Link

// ReadYAML implements settings.YAMLReader.
func (all *Links) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	*all = nil
	for _, entry := range r.Entries(n, "links") {
		name, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		template, ok := r.Text(entry.Value)
		if !ok {
			continue
		}
		link, err := dashboard.ParseLink(name, template)
		if err != nil {
			r.Wrong(entry.Value, err)
			continue
		}
		*all = append(*all, link)
	}
}

// ShowYAML implements settings.YAMLShower.
func (all Links) ShowYAML(indent string) (text string) {
	for _, l := range all {
		text += "\n" + indent + "  " + strconv.Quote(l.Name) + ": " + strconv.Quote(l.Template)
	}
	return text
}

// JSONSchema implements settings.Describer.
func (Links) JSONSchema() settings.Schema {
	return settings.Schema{"type": "object", "additionalProperties": anyHTTP}
}
