package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Files returns the paths of the files that the configuration was read from and of those that it names.
func (c *Config) Files() (paths []string) {
	for _, path := range []string{
		c.file, c.TLS.Cert.Value, c.TLS.Key.Value, c.TLS.ClientCA.Value, c.Upstream.CA.Value, c.Secret.File.Value,
		c.ReconcileSecret.File.Value, c.UpstreamKeySecret.File.Value,
	} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// Digest is SHA-256 over the contents of files.
type Digest [sha256.Size]byte

// DigestOf reads files. One that cannot be read has a digest too, so that its return is a change.
func DigestOf(paths []string) Digest {
	all := sha256.New()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		sum := sha256.Sum256(text)
		fmt.Fprintf(all, "%q %t %x\n", path, err == nil, sum)
	}
	return Digest(all.Sum(nil))
}

// CheckReload returns an error with each setting that differs from the running configuration and cannot be changed while
// the proxy runs; nil if there is none. FillIn comes before, for both.
func (c *Config) CheckReload(running *Config) error {
	all := fixed(reflect.ValueOf(c).Elem(), reflect.ValueOf(running).Elem(), "", "")
	if len(all) == 0 {
		return nil
	}
	return &yamlfile.Faults{File: c.file, Source: c.source, All: all}
}

// fixed returns the settings of a struct that differ from those of the running configuration and that need a restart,
// which each of them does as restart says.
func fixed(next, running reflect.Value, prefix, restart string) (all []yamlfile.Fault) {
	for i, f := range fieldsOf(next) {
		other := fieldsOf(running)[i]
		s := f.setting()
		if s == nil {
			if f.Kind() == reflect.Struct {
				all = append(all, fixed(f.Value, other.Value, prefix+f.name+".", f.restart)...)
			}
			continue
		}
		differs := false
		switch cmp.Or(f.restart, restart) {
		case "change":
			differs = !reflect.DeepEqual(s.value().Interface(), other.setting().value().Interface())
		case "presence":
			differs = s.isSet() != other.setting().isSet()
		}
		if differs {
			all = append(all, yamlfile.Fault{
				At: s.at(), Message: prefix + f.name + " cannot change while the proxy runs",
				Instead: "restart the proxy, or leave it as it is in the running configuration",
				Hidden:  f.name == "store", // its line may have a password
			})
		}
	}
	return all
}
