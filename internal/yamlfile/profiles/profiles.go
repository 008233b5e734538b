// Package profiles reads profiles of httpsafe from YAML files, and writes them.
//
//	conventions.go  the settings that profiles share with the proxy's routes
//	file.go         all settings of a profile, as structs whose tags say how each is written
//	values.go       the forms of values that only profiles have
//	read.go         the profile that a file stands for
//	write.go        the file that stands for a profile
//	docs.go         describes the settings for people, and for editors
package profiles

import (
	"fmt"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Profile is a profile, and the one that it is based on.
type Profile struct {
	httpsafe.Profile
	Base string // its name; "none": it inherits nothing
}

// Resolve returns the profile of a name, or that of a file: see IsFile. The error for a file is a *yamlfile.Faults, or
// says why the file could not be read; that for a name lists the profiles, as yamlfile.Wrong does.
func Resolve(name string) (Profile, error) {
	if !IsFile(name) {
		p, err := httpsafe.ProfileByName(name)
		if err != nil {
			return Profile{}, yamlfile.Wrong(
				fmt.Sprintf("there is no profile %q; supported: %s", name, strings.Join(Names(), ", ")),
				fmt.Sprintf("a file is named by its path, with a slash or a dot, as in ./%s.yaml", name))
		}
		return Profile{p, p.Name}, nil
	}
	return Load(name)
}

// Load reads a file.
func Load(path string) (Profile, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return Profile{}, fmt.Errorf("read the profile: %w", err)
	}
	return Parse(path, source)
}

// IsFile reports whether a text is the path of a file and not a name of a profile. Names have neither a dot nor a
// slash.
func IsFile(name string) bool { return strings.ContainsAny(name, `./\`) }
