package main

import (
	_ "embed"
	"fmt"
	"runtime"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// licenses is written by "make licenses", and compared with the dependencies by a test of internal/release.
//
//go:embed licenses.txt
var licenses string

type versionCmd struct {
	Licenses bool `help:"Print the licenses of all software that this command contains."`
}

// Run prints the version that the module system or the build has given to this binary.
func (c versionCmd) Run(s *cli.Streams) error {
	if c.Licenses {
		_, err := fmt.Fprint(s.Out, licenses)
		return err
	}
	_, err := fmt.Fprintf(s.Out, "retrysafe %s %s %s/%s\n", cli.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
