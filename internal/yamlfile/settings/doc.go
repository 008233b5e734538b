// Package settings reads, completes, combines, prints and describes a YAML file whose settings are the fields of a
// struct. A setting is written once, as a field with tags and a comment:
//
//	// Mirror is a server of pages.
//	type Mirror struct {
//		// Path is where pages are found.
//		Path settings.Setting[string] `yaml:"path" form:"pointer"`
//		// Wait is how long a page may take.
//		Wait settings.Setting[time.Duration] `yaml:"wait" default:"5s" sets:"Timeout"`
//		// Cache: what is kept.
//		Cache Cache `yaml:"cache" sets:"Cache"` // a struct of settings: a mapping in the file
//	}
//
//	//go:embed mirror.go
//	var source embed.FS
//
//	var mirrorFile = settings.Kind{Sources: []fs.FS{source}}
//
// A Kind has what all files of one kind share. It reads a file:
//
//	var m Mirror
//	err := yamlfile.Read(name, text, "the mirror", mirrorFile.Readers(&m), m.check)
//
// Kind.FillIn then gives defaults to what the file leaves out, or Inherit takes it from another struct. Apply sets the
// options of a program, here Timeout and those below Cache. Show prints the settings as a file that says the same.
//
// Kind.Describe returns what the comments say of each field. From that, Help makes the help of a flag, Insert the list
// on a page, and Kind.Schema with Schema.Document the JSON Schema for editors.
//
// A Form says how the text of a value is read. Its name is in the field's tag; without the tag, it is the name of the
// value's type. The general forms are in forms.go, and a Kind adds its own. A type that is read, printed or described
// in another way has methods for it: see hooks.go.
//
//	setting.go  Setting, and the fields of a struct
//	read.go     reads a file, and gives defaults
//	options.go  inherits, compares, and sets a program's options
//	show.go     prints
//	describe.go describes, from the comments; page.go for a page, schema.go for editors
//	forms.go    how the text of a value is read
//	hooks.go    what types can do otherwise
package settings
