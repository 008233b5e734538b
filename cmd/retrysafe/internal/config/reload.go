package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Files returns the paths of the files that the configuration was read from and of those that it names.
func (c *Config) Files() (paths []string) {
	all := []string{
		c.file, c.TLS.Cert.Value, c.TLS.Key.Value, c.TLS.ClientCA.Value, c.Upstream.CA.Value, c.Secret.File.Value,
		c.ReconcileSecret.File.Value, c.UpstreamKeySecret.File.Value,
		c.Encryption.File.Value,
	}
	for _, t := range append(c.overridden(), c.Defaults) {
		if named := t.Profile.Value.named; profiles.IsFile(named) {
			all = append(all, named)
		}
		if from := t.sender(); from != nil {
			for _, s := range from.secrets {
				all = append(all, s.File.Value)
			}
		}
	}
	slices.Sort(all)
	for _, path := range slices.Compact(all) {
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

// CheckReload returns an error with each setting that differs from the running configuration and cannot be changed
// while the proxy runs; nil if there is none. FillIn comes before, for both.
func (c *Config) CheckReload(running *Config) error {
	var all []yamlfile.Fault
	for _, change := range settings.Changes(c, running) {
		all = append(all, yamlfile.Fault{
			At: change.At, Message: change.Name + " cannot change while the proxy runs",
			Instead: "restart the proxy, or leave it as it is in the running configuration",
			Hidden:  change.Name == "store", // its line may have a password
		})
	}
	if len(all) == 0 {
		return nil
	}
	return &yamlfile.Faults{File: c.file, Source: c.source, All: all}
}
