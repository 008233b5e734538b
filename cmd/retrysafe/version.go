package main

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
)

// licenses is written by "make licenses", and compared with the dependencies by a test of internal/release.
//
//go:embed licenses.txt
var licenses string

type versionCmd struct {
	Licenses bool `help:"Print the licenses of all software that this command contains."`
}

// Run prints the version that the module system or the build has given to this binary.
func (c versionCmd) Run(s *streams) error {
	if c.Licenses {
		_, err := fmt.Fprint(s.out, licenses)
		return err
	}
	_, err := fmt.Fprintf(s.out, "retrysafe %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
