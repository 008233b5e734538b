// Package profilefile reads profiles of package httpsafe from YAML files: the conventions of an API that has its own.
// docs/profile-files.md describes the file.
//
// It is a module of its own, because it needs a library for YAML and the library needs none.
package profilefile

import (
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
)

// Load reads a file. The error says everything that is wrong with it, each with its line and what to write instead, or
// why the file could not be read.
func Load(path string) (httpsafe.Profile, error) {
	p, err := profiles.Load(path)
	return p.Profile, err
}

// Parse reads a profile from the content of a file, such as one that is embedded in a program. Errors name it by name.
func Parse(name string, content []byte) (httpsafe.Profile, error) {
	p, err := profiles.Parse(name, content)
	return p.Profile, err
}

// Format returns a file that stands for a profile, with every setting in it; that of a shipped one has a name of its
// own, such as my-stripe. It returns an error for a profile with functions, which no file can have: a RenderFunc, a
// ReplayFunc, a FingerprintFunc, or a Class that is none of package httpsafe's.
func Format(p httpsafe.Profile) (string, error) { return profiles.Format(p) }
