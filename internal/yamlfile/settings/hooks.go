package settings

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// YAMLReader is a pointer to a field, or to the value of a Setting, that is not read by its tags. A mapping whose names
// are those of its author is one.
type YAMLReader interface {
	ReadYAML(r *yamlfile.Reader, n ast.Node)
}

// ScalarReader is a pointer to a struct of settings for which a single value may stand in place of the mapping, or must
// not, with an error that says what to write. The form is that of the field's tag.
type ScalarReader interface {
	ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, form string)
}

// MappingChecker is a pointer to a struct of settings that looks at its mapping after it was read: for settings that
// make no sense together.
type MappingChecker interface {
	CheckMapping(r *yamlfile.Reader, n ast.Node)
}

// YAMLShower is a value that is printed in a way of its own. ShowYAML returns what follows the name and its colon: a
// space and a value, or a line break and indented lines. The line with the name begins with indent. If ShowYAML returns
// nothing, neither is the name printed.
type YAMLShower interface {
	ShowYAML(indent string) string
}

// Excluder is a struct of settings of which some have no effect, because of what others say. Those are not printed.
type Excluder interface {
	Excludes(name string) bool
}

// Describer is a value whose JSON Schema is not made from its fields or its Form. The caller may change what
// JSONSchema returns.
type Describer interface {
	JSONSchema() Schema
}
