// Package profilecmd is the command retrysafe profile: what the shipped profiles say, and whether a profile's file is
// right.
package profilecmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
)

// Cmd is the command line of retrysafe profile.
type Cmd struct {
	Profile string `arg:"" optional:"" help:"A profile's name, or the path of a profile's file."`
	JSON    bool   `name:"json" help:"List the profiles as JSON, one in a line."`
	Schema  bool   `help:"Print a JSON Schema of a profile's file, with which editors complete and check it, and exit."`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `A profile is the conventions of an API: where a key is, which answers are kept, how refusals look. Without an
argument the command lists the shipped profiles. With a name it prints one as a file. With the path of a file it checks
the file, and prints everything that is in force by it and its base.

Examples:

    retrysafe profile
    retrysafe profile stripe > acme.yaml      # to begin with, or begin with: base: stripe
    retrysafe profile ./acme.yaml             # is it right, and what does it say?

    retrysafe proxy --config proxy.yaml       # with, in defaults or a route: profile: ./acme.yaml
    retrysafe probe http://localhost:8080 --profile ./acme.yaml

The page is docs/profile-files.md. The exit status is 0 if the profile is right, 1 if its file could not be read, 2 if the
file or the argument is wrong.`
}

// Run prints what is asked for.
func (c Cmd) Run(s *cli.Streams) error {
	if c.Profile != "" && c.JSON {
		return cli.Refusef("--json is for the list of profiles; leave it or %s out", c.Profile)
	}
	switch {
	case c.Schema:
		_, err := io.WriteString(s.Out, profiles.Schema())
		return err
	case c.Profile == "":
		return list(s.Out, c.JSON)
	}
	p, err := profiles.Resolve(c.Profile)
	if err != nil {
		return refusalOf(err)
	}
	text, err := profiles.Format(p.Profile)
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.Out, text)
	return err
}

// row is a profile in the list.
type row struct {
	Name      string   `json:"name"`
	Header    string   `json:"header,omitempty"`
	Body      string   `json:"body,omitempty"`
	Query     string   `json:"query,omitempty"`
	Syntax    string   `json:"syntax"`
	Methods   []string `json:"methods"`
	Required  bool     `json:"required"`
	Retention string   `json:"retention"`
}

func list(out io.Writer, asJSON bool) error {
	t := cli.NewTable(out, asJSON, "PROFILE", "KEY", "SYNTAX", "METHODS", "PROMISED")
	for _, p := range httpsafe.Profiles() {
		r := row{
			Name: p.Name, Header: p.Header, Body: p.BodyField, Query: p.QueryField, Syntax: p.KeySyntax.String(),
			Methods: p.Methods, Required: p.Required, Retention: days(p.Retention),
		}
		err := t.Add(r, r.Name, strings.Join(places(p), ", "), r.Syntax, strings.Join(r.Methods, " "), r.Retention)
		if err != nil {
			return err
		}
	}
	return t.End("retrysafe profile NAME prints one as a file.")
}

// places returns where keys of a profile are.
func places(p httpsafe.Profile) (all []string) {
	for _, place := range []struct{ kind, name string }{{"", p.Header}, {"body ", p.BodyField}, {"query ", p.QueryField}} {
		if place.name != "" {
			all = append(all, place.kind+place.name)
		}
	}
	return all
}

// refusalOf says that the arguments are wrong, unless the file could not be read.
func refusalOf(err error) error {
	switch unread, faults := new(fs.PathError), new(yamlfile.Faults); {
	case errors.As(err, &unread) && !errors.Is(err, fs.ErrNotExist):
		return err
	case errors.As(err, &faults):
		return cli.Refuse(err)
	}
	return cli.Refuse(yamlfile.ForFlag("profile", err))
}

// days returns a time as the file has it.
func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 && d > 24*time.Hour {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}
