package profiles

import (
	"embed"
	"io/fs"

	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Source has the comments of the settings.
//
//go:embed conventions.go file.go
var Source embed.FS

var kind = settings.Kind{Forms: forms, Sources: []fs.FS{Source}}

// Schema returns the JSON Schema of a file, for editors.
func Schema() string {
	return kind.Schema(Describe()).Document("A profile of Retrysafe")
}

// Describe describes the settings of a file.
func Describe() []settings.Entry { return kind.Describe(&file{}) }
